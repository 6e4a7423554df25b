"""From decisions to bytes (design sections 3, 4 and 12; reclaim-core 1.4 and 3; hosts 2.2 and 11)."""

from __future__ import annotations

import json

import pytest

from magiccontext.engine.view import Edit, Op
from magiccontext.engine.wire import codec_for
from tests.engine.conversation import Call, Result, Session, dump, parts, words


def said(session: Session, index: int) -> str:
    return parts(session.codec, [session.state.path[index].body or b""])[0][2]


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("§12§ hello", "§1§ hello"),
        ("§103012$ hello", "§1§  hello"),
        ('§12">§12§ hello', "§1§ hello"),
        ("§4§§5§ hello", "§1§ hello"),
        ("§3.5 applies", "§1§ §3.5 applies"),
        ("12 hello", "§1§ 12 hello"),
        ("hello §12§", "§1§ hello §12§"),
    ],
)
@pytest.mark.parametrize("format", ["anthropic", "openai-chat"])
def test_case_05_notation_in_front_is_taken_off_once(text: str, served: str, format: str) -> None:
    """Section 12, 5."""
    session = Session(format).ask(text).ask("on")
    session.send()
    assert said(session, 0) == served


def test_a_text_of_nothing_but_notation_is_what_the_person_said() -> None:
    session = Session().ask("§12§").ask("on")
    session.send()
    assert said(session, 0) == "§1§ §12§"


def test_without_shown_tags_notation_in_a_text_is_the_hosts() -> None:
    """Hosts 11, 2: no edit applies, so no byte changes."""
    session = Session().ask("§12§ hello").ask("§5§")
    assert session.send(reduce_callable=False).served == session.raw


def test_hosts_case_02_without_edits_the_very_bytes_go_out() -> None:
    """Hosts section 11: key order, spelling of numbers, escapes and spaces."""
    session = Session()
    call = b'{"type":"tool_use","input":{"n":1.50,"s":"\\u00e9\\/"},"id":"a","name":"x"}'
    odd = b'{ "content" : [ ' + call + b' ],"role":"assistant" }'
    session.raw = [
        *session.write.user("go"),
        odd,
        *session.write.results(Result("a")),
        *session.write.user("on"),
    ]
    sent = session.send()
    assert sent.served[1] is session.state.path[1].raw
    assert sent.served[1] == odd


def test_hosts_case_03_unknown_parts_stay_and_count() -> None:
    """Hosts section 11."""
    session = Session()
    blocks = [
        {"type": "server_tool_use", "id": "s", "input": {"q": "x" * 400}},
        {"type": "text", "text": "hi"},
    ]
    session.raw = [
        *session.write.user("go"),
        dump({"role": "assistant", "content": blocks}),
        *session.write.user("on"),
    ]
    sent = session.send()
    assert json.loads(sent.served[1])["content"] == [blocks[0], {"type": "text", "text": "§2§ hi"}]
    assert session.state.path[1].tokens > 100


def test_unknown_roles_are_never_edited() -> None:
    session = Session()
    session.raw = [dump({"role": "critic", "content": "§1§ hm"}), *session.write.user("go")]
    assert session.send().served[0] == session.raw[0]


def test_hosts_case_51_a_string_stays_a_string() -> None:
    """Hosts section 11."""
    session = Session().ask("hello").ask("on")
    sent = session.send()
    assert json.loads(sent.served[0])["content"] == "§1§ hello"


def test_a_result_list_gets_its_prefix_on_its_first_text() -> None:
    """Design section 12, 7."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
    outputs = ([image, {"type": "text", "text": "one"}, {"type": "text", "text": "two"}], [image], [])
    for output in outputs:
        session = Session().ask("go").add(Session().write.assistant(calls=[Call("a")]))
        block = {"type": "tool_result", "tool_use_id": "a", "content": output}
        session.raw += [dump({"role": "user", "content": [block]}), *session.write.user("on")]
        content = json.loads(session.send().served[2])["content"][0]["content"]
        texts = [item["text"] for item in content if item["type"] == "text"]
        assert texts[0].startswith("§2§ ")
        assert [item for item in content if item["type"] == "image"] == [
            i for i in output if i["type"] == "image"
        ]


def test_leading_system_messages_stay_first_and_as_they_are() -> None:
    """Design section 12, 6."""
    session = Session("openai-chat")
    developer = dump({"role": "developer", "content": "§1§ rules"})
    session.raw = [session.write.system("be kind"), developer, *session.write.user("go")]
    assert session.send().served[:2] == session.raw[:2]


def test_an_assistant_message_left_with_blank_text_leaves() -> None:
    """Reclaim-core 3: blank text is not meaningful."""
    session = Session("openai-chat", "openai/gpt-5", protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments={"text": "x" * 2_000}), text="  \n")
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    session.queue(session.tool("c").number)
    session.flush()
    sent = session.send()
    assert sent.bodies["m2"] is None


def test_an_assistant_message_of_imitated_notation_leaves_with_its_call() -> None:
    session = Session("openai-chat", "openai/gpt-5", protected_tokens=4_000).ask("go")
    session.step("c", words(500), Call("c", arguments={"text": "x" * 2_000}), text="§7§ ")
    session.steps(4, 2_000, first=900).ask("on")
    session.send()
    session.queue(session.tool("c").number)
    session.flush()
    assert session.send().bodies["m2"] is None


def test_a_message_of_reasoning_alone_is_left_alone() -> None:
    session = Session().ask("go").add(Session().write.assistant(thinking="hm")).ask("on")
    assert session.send().served[1] == session.raw[1]


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long"}}
IMAGE_URL = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
FILE = {"type": "file", "file": {"file_id": "f1"}}


@pytest.mark.parametrize(
    ("format", "block"),
    [("anthropic", IMAGE), ("anthropic", DOCUMENT), ("openai-chat", IMAGE_URL), ("openai-chat", FILE)],
)
def test_a_dropped_file_is_a_text_part_with_the_placeholder(format: str, block: dict[str, object]) -> None:
    """Reclaim-core 3: REPLACE_TEXT on media, in its place."""
    content = [{"type": "text", "text": "see"}, block, {"type": "text", "text": "this"}]
    raw = dump({"role": "user", "content": content})
    encoded = codec_for(format).encode(raw, (Edit(Op.REPLACE_TEXT, 1, "[dropped §2§]"),))
    assert json.loads(encoded or b"")["content"][1] == {"type": "text", "text": "[dropped §2§]"}
    session = Session(format)
    session.raw = [raw, *session.write.user("on")]
    session.send()
    session.queue(2)
    session.flush()
    served = json.loads(session.send().served[0])["content"]
    assert [item["text"] for item in served] == ["§1§ see", "[dropped §2§]", "§3§ this"]


def test_a_message_of_one_file_keeps_a_text() -> None:
    session = Session()
    session.raw = [dump({"role": "user", "content": [IMAGE]}), *session.write.user("on")]
    session.send()
    session.queue(1)
    session.flush()
    assert said_all(session, 0) == ["[dropped §1§]"]


def said_all(session: Session, index: int) -> list[str]:
    sent = session.send()
    return [item["text"] for item in json.loads(sent.served[index])["content"]]


def test_lone_surrogates_survive_a_prefix() -> None:
    """Design section 4."""
    session = Session()
    session.raw = [b'{"role":"user","content":"half \\ud83d pair"}', *session.write.user("on")]
    sent = session.send()
    assert b"\\ud83d" in sent.served[0]
    assert sent.served[0].startswith('{"role":"user","content":"§1§ half '.encode())


def test_a_dropped_tag_wins_over_its_prefix() -> None:
    session = Session().ask("§9§ secret").ask("on")
    session.send()
    session.queue(1)
    session.flush()
    session.send()
    assert said(session, 0) == "[dropped §1§]"


def test_a_text_that_is_its_own_placeholder_needs_no_edit() -> None:
    session = Session().ask("[dropped §1§]").ask("on")
    session.send()
    session.queue(1)
    session.flush()
    session.send()
    assert session.state.path[0].form is not None
    assert (session.state.path[0].form.edits, said(session, 0)) == ((), "[dropped §1§]")
