"""The bytes of m[0] (history-render section 1)."""

import hashlib
from dataclasses import replace

import pytest

from magiccontext.engine.head import m0
from magiccontext.engine.head.model import Member, Mural, ProfileEntry, ProjectDocs, Workspace
from tests.engine.head.building import PROJECT, compartment, fold, memory, source

MURAL = Mural("data:image/png;base64,AAAA", "h1")
DOCS = ProjectDocs((("STRUCTURE.md", "s"), ("README.md", "no"), ("ARCHITECTURE.md", "a <b>\n")))


def test_an_empty_head_is_an_empty_history() -> None:
    assert fold(source()).m0 == "<session-history></session-history>"


def test_every_section_in_its_place() -> None:
    given = source(
        docs=DOCS,
        profile=(ProfileEntry(2, "late", 9), ProfileEntry(1, "early & first", 3)),
        compartments=(compartment(0),),
        memories=(memory(5), memory(3, "a & b", "PROJECT_RULES")),
        mural=MURAL,
        mural_enabled=True,
        images_accepted=True,
    )
    assert fold(given).m0 == (
        '<project-docs>\n<file name="ARCHITECTURE.md">\na &lt;b&gt;\n</file>\n\n'
        '<file name="STRUCTURE.md">\ns\n</file>\n</project-docs>\n\n'
        "<user-profile>\n- early &amp; first\n- late\n</user-profile>\n\n"
        "<session-history>\n## 1-10 · Work 0\nfull 0\n</session-history>\n\n"
        "<project-memory>\n<PROJECT_RULES>\n#3: a &amp; b\n</PROJECT_RULES>\n"
        "<CONSTRAINTS>\n#5: fact 5\n</CONSTRAINTS>\n</project-memory>\n\n" + m0.MURAL_TEXT
    )


def test_with_memory_off_docs_and_history_remain() -> None:
    given = source(
        docs=DOCS,
        profile=(ProfileEntry(1, "p", 3),),
        compartments=(compartment(0),),
        memories=(memory(5),),
        mural=MURAL,
        mural_enabled=True,
        images_accepted=True,
        memory_enabled=False,
    )
    pair = fold(given)
    assert pair.m0 == fold(source(docs=DOCS, compartments=(compartment(0),))).m0
    assert (pair.mural, pair.m0_memory_ids, pair.visible_memory_ids) == (None, (), ())


def test_with_compaction_off_the_head_only_adds() -> None:
    given = source(docs=DOCS, compartments=(compartment(0),), memories=(memory(5),), compaction_on=False)
    pair = fold(given)
    assert "<session-history></session-history>" in pair.m0
    assert "fact 5" in pair.m0
    assert pair.boundary is None


def test_documents_are_canonical() -> None:
    docs = ProjectDocs((("ARCHITECTURE.md", "\ufeffa  \t\r\n\r\n b\t\n\n\n"),))
    assert m0.canonical_docs(docs) == [("ARCHITECTURE.md", "a\n\n b")]


def test_the_hash_is_of_what_is_rendered() -> None:
    expected = hashlib.sha256(b"file:ARCHITECTURE.md\na <b>\n\n---\n\nfile:STRUCTURE.md\ns").hexdigest()
    assert fold(source(docs=DOCS)).markers.docs_hash == expected


def test_case_12_injection_off_means_no_block_and_no_hash() -> None:
    pair = fold(source(docs=DOCS, inject_docs=False))
    assert (pair.m0, pair.markers.docs_hash) == ("<session-history></session-history>", "")


@pytest.mark.parametrize(("size", "there"), [(256 * 1024, True), (256 * 1024 + 1, False)])
def test_case_13_an_oversized_document_is_absent(size: int, there: bool) -> None:
    ascii_text, wide = "x" * size, "é" * (size // 2) + "x" * (size % 2)
    for text in (ascii_text, wide):
        assert bool(m0.canonical_docs(ProjectDocs((("STRUCTURE.md", text),)))) == there


def test_documents_with_half_a_surrogate_pair_have_a_hash() -> None:
    assert m0.docs_hash([("STRUCTURE.md", "a\ud83d")])


def test_categories_and_ids_ascend() -> None:
    chosen = [
        memory(1, category="ZEBRA"),
        memory(2, category="NAMING"),
        memory(9, category="CONFIG_VALUES"),
        memory(4, category="CONFIG_VALUES"),
        memory(5, category="ALPHA"),
        memory(6, category="ARCHITECTURE"),
    ]
    text = m0.memories(chosen, {})
    found = [line for line in text.split("\n") if line.startswith(("#", "<")) and "/" not in line]
    assert found[1:] == [
        "<ARCHITECTURE>", "#6: fact 6", "<CONFIG_VALUES>", "#4: fact 4", "#9: fact 9", "<NAMING>",
        "#2: fact 2", "<ALPHA>", "#5: fact 5", "<ZEBRA>", "#1: fact 1",
    ]  # fmt: skip


def test_a_foreign_memory_names_its_source() -> None:
    members = (Member(PROJECT, "own"), Member("git:other", "s<v>c"), Member("git:x"))
    names = m0.source_names(PROJECT, Workspace(members))
    lines = [m0.memory_line(memory(1, project=project), names) for project in (PROJECT, "git:other", "git:x")]
    assert lines == ["#1: fact 1", "#1 [s&lt;v&gt;c]: fact 1", "#1: fact 1"]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\x85"])
def test_a_memory_of_several_lines_forges_no_entry(end: str) -> None:
    line = m0.memory_line(memory(1, f"a{end}#2: forged"), {})
    assert line == "#1: a\n  #2: forged"


def test_a_memory_is_capped() -> None:
    assert len(m0.memory_line(memory(1, "x" * 70_000), {})) == len("#1: ") + 64 * 1024


def test_a_category_cannot_break_its_tag() -> None:
    assert "<A&quot;&gt;>\n#1: fact 1\n</A&quot;&gt;>" in m0.memories([memory(1, category='A">')], {})


@pytest.mark.parametrize(
    "without",
    [
        {"mural_enabled": False},
        {"memory_enabled": False},
        {"images_accepted": False},
        {"mural": None},
        {"mural": Mural("")},
    ],
)
def test_a_mural_needs_everything(without: dict[str, object]) -> None:
    given = source(mural=MURAL, mural_enabled=True, images_accepted=True)
    assert fold(given).mural == MURAL
    missing = fold(replace(given, **without))
    assert missing.mural is None
    assert "mural" not in missing.m0


def test_text_without_its_image_is_not_served() -> None:
    given = source(memories=(memory(1),), mural=MURAL, mural_enabled=True, images_accepted=True)
    pair = fold(given)
    assert m0.served_m0(pair) == pair.m0
    assert m0.served_m0(replace(pair, mural=None)) == fold(source(memories=(memory(1),))).m0
