"""Builds a turn: its text and its SGD annotation."""

from collections.abc import Mapping
from typing import Any

from jaxaug_papers.minisgd.concepts import agreeing
from jaxaug_papers.minisgd.world import SlotSpec


class Speech:
    """Collects the text of a turn, with actions, spans, and states by service."""

    def __init__(self, speaker: str):
        self.text = ""
        self._speaker = speaker
        self._frames: dict[str, dict[str, Any]] = {}

    def say(self, text: str) -> int:
        """Appends words; returns the position of their first character."""
        text = text.strip()
        if not text:
            return len(self.text)
        if self.text:
            self.text += " "
        start = len(self.text)
        self.text += text
        return start

    def go_on(self, directly: bool) -> None:
        """Appends "and", unless the text is empty, ends with it, or needs none."""
        if self.text and not directly and not self.text.endswith(" and"):
            self.say("and")

    def act(self, service: str, act: str, slot: str = "", value: str = "") -> None:
        """Annotates a dialogue act with its optional value."""
        values = [value] if value else []
        self._frame(service)["actions"].append(
            {"act": act, "canonical_values": values, "slot": slot, "values": values}
        )

    def value(
        self, service: str, act: str, slot: SlotSpec, template: str, value: str
    ) -> None:
        """Appends a phrase with a value, and marks the span of a free value."""
        template = agreeing(template, value)
        start = self.say(template.replace("{v}", value))
        self.act(service, act, slot.name, value)
        if not slot.is_categorical:
            start += template.index("{v}")
            self._frame(service)["slots"].append(
                {"exclusive_end": start + len(value), "slot": slot.name, "start": start}
            )

    def call(
        self,
        service: str,
        method: str,
        values: Mapping[str, str],
        result: Mapping[str, str],
    ) -> None:
        """Annotates a service call with its single result."""
        frame = self._frame(service)
        frame["service_call"] = {"method": method, "parameters": _definite(values)}
        frame["service_results"] = [_definite(result)]

    def set_state(self, service: str, state: dict[str, Any]) -> None:
        self._frame(service)["state"] = state

    def mentions(self, service: str) -> bool:
        """Returns whether the turn has a frame of that service."""
        return service in self._frames

    def turn(self) -> dict[str, Any]:
        """Returns the turn in SGD layout."""
        return {
            "frames": list(self._frames.values()),
            "speaker": self._speaker,
            "utterance": self.text,
        }

    def _frame(self, service: str) -> dict[str, Any]:
        return self._frames.setdefault(
            service, {"actions": [], "service": service, "slots": []}
        )


def _definite(values: Mapping[str, str]) -> dict[str, str]:
    return {slot: values[slot] for slot in sorted(values) if values[slot] != "dontcare"}
