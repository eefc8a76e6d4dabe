"""Chat templates of published models: the text around a user's message.

A template is a Jinja program in the folder of a model. It is rendered as in
transformers: in a sandbox, with the special tokens as variables.
"""

import datetime
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_text, shortened
from jaxaug.core.installed import missing_extra
from jaxaug.models.text.prompts import Prompt
from jaxaug.models.weights import hf_config

FILE = "chat_template.jinja"
_CONFIG = "tokenizer_config.json"
_MAP = "special_tokens_map.json"
_FIX = "Take the files that were published with the model."
_WITHOUT = "Take an instruction-tuned model, or leave `chat:` out of the prompt's name."
# Placeholder for the message: private-use characters, which no template changes.
_MARK = "\ue000\ue001\ue000"
_DEFAULT = "default"


@dataclass(frozen=True)
class Template:
    """The chat template of a model, and its special tokens by name."""

    source: str
    text: str
    tokens: Mapping[str, str]

    def render(self, message: str) -> str:
        """Returns the text that a model continues after one message of a user.

        `enable_thinking=False` turns off thinking in models that support it.

        Raises:
            UserError: jinja2 is not installed, or the template is wrong.
        """
        jinja2 = _library()
        try:
            return (
                _environment()
                .from_string(self.text)
                .render(
                    **self.tokens,
                    messages=[{"role": "user", "content": message}],
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    enable_thinking=False,
                )
            )
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError) as error:
            raise UserError(
                f"{self.source}: the chat template cannot be rendered "
                f"({type(error).__name__}: {shortened(error)}). {_FIX}"
            ) from None

    def around(self, prompt: Prompt) -> Prompt:
        """Returns the prompt as a user's message inside the template.

        Raises:
            UserError: `render` fails, or the template does not show the message exactly
                once.
        """
        text = self.render(f"{prompt.before}{prompt.space}{_MARK}{prompt.behind}")
        if text.count(_MARK) != 1:
            raise UserError(
                f"{self.source}: the chat template shows the message of a user "
                f"{text.count(_MARK)} times, but must show it once. {_WITHOUT}"
            )
        before, behind = text.split(_MARK)
        stem = before.rstrip(" ")
        return Prompt(stem, before[len(stem) :], behind)


def load(folder: epath.Path) -> Template:
    """Returns the chat template of a published model.

    Sources in order: `chat_template.jinja`, `chat_template` in tokenizer_config.json,
    and a GGUF file. If tokenizer_config.json has several templates, the one named
    "default" counts.

    Raises:
        UserError: the model has no template, or a file is damaged.
    """
    config: dict[str, Any] = {}
    for name in (_MAP, _CONFIG):
        if (folder / name).exists():
            config |= hf_config.read_object(folder / name, _FIX)
    source = folder / _CONFIG
    if not (folder / _CONFIG).exists() and (found := sorted(folder.glob("*.gguf"))):
        from jaxaug.models.weights import gguf

        source = found[0]
        config |= gguf.Gguf(source).tokenizer_config
    template = config.get("chat_template")
    if (folder / FILE).exists():
        source = folder / FILE
        template = read_text(source, _FIX)
    elif isinstance(template, list):
        template = _of_list(template)
    if template is None:
        raise UserError(
            f"{folder} has no chat template, in {FILE} or as chat_template in "
            f"{_CONFIG}. {_WITHOUT}"
        )
    if not isinstance(template, str):
        raise UserError(
            f"{source}: chat_template is neither a text nor a list of templates. {_FIX}"
        )
    return Template(str(source), template, _tokens(config))


def _of_list(templates: list[Any]) -> Any:
    """Returns the default of several named templates, if it exists."""
    named = {
        one.get("name"): one.get("template")
        for one in templates
        if isinstance(one, dict)
    }
    return named.get(_DEFAULT)


def _tokens(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, token in config.items():
        content = token.get("content") if isinstance(token, dict) else token
        if name.endswith("_token") and isinstance(content, str):
            found[name] = content
    return found


@functools.cache
def _environment() -> Any:
    jinja2 = _library()
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block `{% generation %}` around a model's text; it renders unchanged."""

        tags = {"generation"}  # noqa: RUF012 (as jinja2 wants it)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def fail(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
    )
    # The built-in `tojson` filter of Jinja escapes for HTML.
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(
        form
    )
    return environment


def _library() -> Any:
    try:
        import jinja2
    except ImportError:
        raise missing_extra(
            "chat templates need the package jinja2", "jinja2"
        ) from None
    return jinja2
