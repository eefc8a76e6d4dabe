"""Runs programs simultaneously, on forced numbers of CPU devices."""

import os
import socket
import subprocess


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_together(
    python: str, *commands: tuple, devices: int, timeout: int = 300
) -> list[tuple[str, str]]:
    """Runs Python programs that must succeed; returns (stdout, stderr) of each."""
    count = f"--xla_force_host_platform_device_count={devices}"
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {count}",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([python, *map(str, command)], env=env, **pipes)
        for command in commands
    ]
    try:
        printed = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, err) in zip(processes, printed, strict=True):
        assert process.returncode == 0, err[-6000:]
    return printed
