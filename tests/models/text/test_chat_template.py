"""Chat templates: rendered as in transformers, and around prompts."""

import json
import shutil

import numpy as np
import pytest
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.text import chat_template, language, prompts
from jaxaug.paraphrase import generation, run

# Two templates use all features of the published templates.
PLAIN = """\
{%- set names = {"user": "Person", "assistant": "Model"} -%}
{{ bos_token }}{% for message in messages %}
  {% if loop.first and message["role"] != "system" %}
Be brief.<|end|>
  {% endif %}
{{ names[message.role] }}: {{ message.content | trim }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt -%}
Model:
{%- if enable_thinking is defined and enable_thinking is false %} [] {% endif -%}
{% endif %}
"""
RICH = """\
{%- if messages[0]["role"] == "system" %}{{ raise_exception("no system") }}{% endif %}
{%- macro turn(message) %}<|begin|>{{ message["role"] | upper }}|{{ message | tojson(indent=1) }}{% endmacro %}
{%- set ns = namespace(count=0) %}
{%- for message in messages %}
{%- if message["role"] == "tool" %}{% continue %}{% endif %}
{%- set ns.count = ns.count + 1 %}
{{- turn(message) }}
{%- generation %}<|end|>{% endgeneration %}
{%- if ns.count > 3 %}{% break %}{% endif %}
{%- endfor %}
{%- if not tools %}<{{ strftime_now("%Y") }}>{% endif %}
{%- if add_generation_prompt %}{{ "<|begin|>MODEL|" }}{% endif %}"""
TOKENS = {
    "bos_token": "<|begin|>",
    "eos_token": {"__type": "AddedToken", "content": "<|end|>"},
}
MESSAGE = 'Say it & "otherwise" é\n  <b>{text}</b>  '


@pytest.fixture
def folder(tiny_lm, tmp_path):
    """Writes the files of a tokenizer with a template next to a tiny model."""

    def make(template=None, name="tokenizer_config.json", **config):
        target = tmp_path / "model"
        shutil.copytree(tiny_lm, target, dirs_exist_ok=True)
        config = TOKENS | {"tokenizer_class": "PreTrainedTokenizerFast"} | config
        if name == chat_template.FILE:
            (target / name).write_text(template)
        elif template is not None:
            config["chat_template"] = template
        (target / "tokenizer_config.json").write_text(json.dumps(config))
        return target

    return make


@pytest.mark.parametrize("template", [PLAIN, RICH], ids=["plain", "rich"])
@pytest.mark.parametrize("name", ["tokenizer_config.json", chat_template.FILE])
def test_rendered_as_transformers_does(folder, template, name):
    path = folder(template, name)
    theirs = transformers.AutoTokenizer.from_pretrained(path).apply_chat_template(
        [{"role": "user", "content": MESSAGE}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
    )
    assert chat_template.load(path).render(MESSAGE) == theirs
    assert "<b>" in theirs and "\\u003c" not in theirs


def test_which_template(folder):
    several = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "several {{ messages[0].content }}"},
    ]
    assert chat_template.load(folder(several)).text.startswith("several")
    file = folder("file {{ messages[0].content }}", chat_template.FILE)
    (file / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert chat_template.load(file).text.startswith("file")


def test_tokens_of_a_prompt_in_a_chat(folder, tmp_path):
    """The model reads the tokens of transformers: one first token, then the rest."""
    path = folder(PLAIN)
    (tmp_path / "mine.txt").write_text("Reword it.\n\n  {text}\n")
    loaded = language.load(path, "tiny")
    model = loaded.prompted(f"chat:{tmp_path / 'mine.txt'}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    wanted = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Reword it.\n\n  a <|end|> b"}],
        add_generation_prompt=True,
        enable_thinking=False,
        return_dict=False,
    )
    first = model.module.config.bos_token_id
    mine = [first, *(token - 1 for token in model.encode("a  <|end|> b"))]
    # Text of the data is never a special token, unlike in transformers.
    text = [tokenizer.convert_tokens_to_ids(c) for c in "<|end|>"]
    place = mine.index(text[0])
    assert mine[:place] == wanted[:place]
    assert mine[place : place + len(text)] == text
    assert mine[place + len(text) :] == wanted[place + 1 :]
    assert wanted[:1] == [0] and wanted.count(1) == 3
    # Without a chat, the tokens are unchanged.
    assert model.prompted("schema").before == loaded.prompted("schema").before


def test_a_first_token_that_is_not_bos(folder):
    model = language.load(folder("<|end|>{{ messages[0].content }}:"), "tiny")
    chat = model.prompted("chat:plain")
    assert (model.module.config.bos_token_id, chat.module.config.bos_token_id) == (0, 1)
    assert chat.before == [] and chat.vocabulary.decode(chat.behind) == "\n->:"


def test_outputs_in_a_chat_differ_and_have_their_key(folder, tmp_path):
    path = folder(PLAIN)
    (tmp_path / "lines.txt").write_text("City\nDate\n")

    def outputs(prompt):
        settings = {"model": str(path), "sampler": "greedy", "max_length": 8}
        out = tmp_path / f"{prompt.replace(':', '_')}.jsonl"
        run.paraphrase(tmp_path / "lines.txt", out, prompt=prompt, **settings)
        return [json.loads(line) for line in out.read_text().splitlines()]

    plain, chat = outputs("ask"), outputs("chat:ask")
    assert [r["log_probability"] for r in plain] != [r["log_probability"] for r in chat]
    assert plain[0]["prompt"] == "ask" and chat[0]["prompt"].startswith("chat:ask ")
    block = {"model": str(path), "sampler": "greedy", "num": 1, "max_length": 8}
    one, other = generation.grid([block | {"prompt": ["ask", "chat:ask"]}])
    assert one.key() != other.key()
    (text,) = generation.Paraphraser(0)(other, ["City"])
    assert text == [chat[0]["output"]]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, ("has no chat template, in chat_template.jinja or as chat_template in "
         "tokenizer_config.json. Take an instruction-tuned model")),
        ({"a": 1}, "chat_template is neither a text nor a list of templates."),
        ([{"name": "tool_use", "template": "x"}], "has no chat template, in"),
        ("{% if %}", "the chat template cannot be rendered (TemplateSyntaxError: "),
        ("{{ raise_exception('only tools') }}", "(TemplateError: only tools)"),
        ("{{ messages[0].content.__class__.mro() }}", "(SecurityError: "),
        ("{{ 1 // 0 }}", "(ZeroDivisionError: "),
        ("nothing", "shows the message of a user 0 times, but must show it once."),
        ("{{ messages[0].content * 2 }}", "shows the message of a user 2 times"),
    ],
)  # fmt: skip
def test_wrong_templates(folder, template, message):
    model = language.load(folder(template), "tiny")
    with pytest.raises(UserError) as caught:
        model.prompted("chat:plain")
    assert message in str(caught.value) and str(model.folder) in str(caught.value)


def test_models_without_chat_template(folder):
    with pytest.raises(UserError, match=r"plane: no such file. Use one of plain, "):
        prompts.find("chat:plane")
    model = language.load(folder(PLAIN), "tiny@1")
    bare = type(model)(
        model.label, model.module, model.params, model.vocabulary, model.prompt
    )
    with pytest.raises(UserError, match=r"tiny@1 has no chat template, because it"):
        bare.prompted("chat:plain")
    assert np.array_equal(bare.ends, model.ends)
