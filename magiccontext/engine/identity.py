"""Which message is which (design section 4; hosts section 2.5).

Where the host names its messages, its id is the identity and a changed digest is a new revision.  Where
the format has no ids, an identity is a node of a trie: (identity of the message before, digest).  A
request walks the trie from the root, so a common front keeps its identities whatever follows.  The array
of the last pass is such a walk too, also where the host composed it anew.  Where the request leaves the
known path, later messages are realigned in order by digests that occur once on both sides; what is left is
new.  A tool result never outlives the identity of its call: its tag is the call's.

Two rules: an identity is never given to something else, and a message that comes back gets its old one.

Ordinals belong to lineages.  An array that only grows, or that leaves known messages out, stays in its
lineage; one that goes on differently after a known message (rewind, edit, host compaction) opens a new
lineage, which shares its parent's messages up to the common point and counts on from there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from magiccontext.engine.state import Arrival, Msg, SessionState
from magiccontext.engine.transcript import InvalidMessage, Role


def digest_of(undecorated: bytes) -> bytes:
    return hashlib.sha256(undecorated).digest()


def arrive(
    state: SessionState,
    slices: Sequence[bytes],
    digests: Sequence[bytes],
    host_ids: Sequence[str] | None = None,
    *,
    base: int = 0,
) -> Arrival:
    """Name the messages of a request.

    ``slices`` and ``digests`` are the undecorated messages behind the first ``base`` messages of the old
    path (0: the whole array).  ``host_ids`` are the host's own ids where the format has them.  Raises
    InvalidMessage for a repeated or reserved id.  The messages in the answer carry no role or tokens yet:
    the caller parses what is new.
    """
    if host_ids is not None:
        _check_ids(host_ids)
    known = len(state.path) - base
    if (
        len(digests) >= known
        and list(digests[:known]) == state.digests[base:]
        and _ids_agree(state, host_ids, base)
    ):
        return _grown(
            state, slices[known:], digests[known:], host_ids[known:] if host_ids else None, base, known
        )
    return _rearranged(state, slices, digests, host_ids, base)


def _check_ids(host_ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for index, mid in enumerate(host_ids):
        if not mid:
            raise InvalidMessage(f"messages[{index}].id", "a message of this format needs an id")
        if "#" in mid:
            raise InvalidMessage(f"messages[{index}].id", "an id must not contain '#'")
        if mid in seen:
            raise InvalidMessage(f"messages[{index}].id", f"two messages have the id {mid!r}")
        seen.add(mid)


def _ids_agree(state: SessionState, host_ids: Sequence[str] | None, base: int) -> bool:
    if host_ids is None:
        return True
    return all(m.mid == mid for m, mid in zip(state.path[base:], host_ids, strict=False))


def _grown(
    state: SessionState,
    slices: Sequence[bytes],
    digests: Sequence[bytes],
    host_ids: Sequence[str] | None,
    base: int,
    known: int,
) -> Arrival:
    """The array is the old path plus something.  New messages only append when the lineage ends there."""
    mids = [m.mid for m in state.path[base:]]
    if not slices:
        return Arrival(mids=mids)
    ends_here = not state.line or (bool(state.path) and state.path[-1].mid == state.line[-1].mid)
    parent = state.path[-1].mid if state.path else ""
    comes_back = (
        any(mid in state.messages for mid in host_ids)
        if host_ids is not None
        else (parent, digests[0]) in state.trie
    )
    if not ends_here or comes_back:
        all_slices = [m.raw for m in state.path[base:]] + list(slices)
        all_ids = mids + list(host_ids) if host_ids is not None else None
        return _rearranged(state, all_slices, state.digests[base:] + list(digests), all_ids, base)
    counter = state.vars.message_counter
    ordinal = state.line[-1].ordinal if state.line else 0
    new: list[Msg] = []
    for offset, (raw, digest) in enumerate(zip(slices, digests, strict=True)):
        counter += 1
        ordinal += 1
        mid = host_ids[offset] if host_ids is not None else f"m{counter}"
        new.append(Msg(mid, state.vars.lineage, ordinal, Role.OTHER, digest, raw, parent))
        parent = mid
    return Arrival(mids=mids + [m.mid for m in new], new=new)


def _rearranged(
    state: SessionState,
    slices: Sequence[bytes],
    digests: Sequence[bytes],
    host_ids: Sequence[str] | None,
    base: int,
) -> Arrival:
    """The general case: the host rewound, edited, compacted, or left messages out."""
    front = state.path[:base]
    named = host_ids if host_ids is not None else _named_by_trie(state, digests, front)
    counter = state.vars.message_counter
    path: list[Msg] = list(front)
    new_ids: set[str] = set()
    revised: list[Msg] = []
    parent = front[-1].mid if front else ""
    for raw, digest, name in zip(slices, digests, named, strict=True):
        message = state.messages.get(name) if name else None
        if message is None:
            counter += 1
            message = Msg(name or f"m{counter}", 0, 0, Role.OTHER, digest, raw, parent)
            new_ids.add(message.mid)
        elif message.digest != digest:
            message = replace(
                message, digest=digest, raw=raw, revision=message.revision + 1, parsed=None, tokens=0
            )
            revised.append(message)
        elif not message.raw:
            message = replace(message, raw=raw)
        path.append(message)
        parent = message.mid
    arrival = Arrival(mids=[m.mid for m in path[base:]], revised=revised)
    _place(state, path, new_ids, arrival)
    arrival.first_change = _first_change(state, path, {m.mid for m in revised})
    return arrival


def _named_by_trie(state: SessionState, digests: Sequence[bytes], front: Sequence[Msg]) -> list[str]:
    """Identities for an id-less array: the walk, then realignment by digests unique on both sides."""
    names = _walked(state, digests, front)
    rest = digests[len(names) :]
    if not rest:
        return names
    used = {m.mid for m in front} | set(names)
    candidates = [m for m in state.line if m.mid not in used]
    left, right = Counter(m.digest for m in candidates), Counter(rest)
    anchors = {m.digest: (i, m.mid) for i, m in enumerate(candidates) if left[m.digest] == 1}
    pairs = [
        (index, *anchors[digest])
        for index, digest in enumerate(rest)
        if right[digest] == 1 and digest in anchors
    ]
    kept = {index: mid for index, _, mid in _in_order(pairs)}
    reserved = set(kept.values())
    walking = ""
    for index, digest in enumerate(rest):
        name = kept.get(index, "")
        if not name and walking:  # behind a realigned message its own successors are known again
            name = state.trie.get((walking, digest), "")
            name = "" if name in reserved else name
        if name and _follows(state.messages[name], used):
            used.add(name)
        else:
            name = ""
        names.append(name)
        walking = name
    return names


def _walked(state: SessionState, digests: Sequence[bytes], front: Sequence[Msg]) -> list[str]:
    """Identities along the array of the last pass, and on through the trie, as far as they go."""
    names: list[str] = []
    for known, digest in zip(state.path[len(front) :], digests, strict=False):
        if known.digest != digest:
            break
        names.append(known.mid)
    used = {m.mid for m in front} | set(names)
    parent = names[-1] if names else front[-1].mid if front else ""
    for digest in digests[len(names) :]:
        mid = state.trie.get((parent, digest))
        if mid is None or not _follows(state.messages[mid], used):
            break
        names.append(mid)
        used.add(mid)
        parent = mid
    return names


def _follows(message: Msg, before: set[str]) -> bool:
    """Whether ``message`` can stand behind ``before``: not there yet, and behind the calls it answers."""
    return message.mid not in before and all(link.is_call or link.owner in before for link in message.links)


def _in_order(pairs: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Longest increasing run of (request index, line index): realignment never crosses."""
    tails: list[int] = []
    tail_at: list[int] = []
    previous: list[int] = [-1] * len(pairs)
    for here, (_, line_index, _) in enumerate(pairs):
        slot = bisect_left(tails, line_index)
        previous[here] = tail_at[slot - 1] if slot else -1
        if slot == len(tails):
            tails.append(line_index)
            tail_at.append(here)
        else:
            tails[slot] = line_index
            tail_at[slot] = here
    chosen: list[tuple[int, int, str]] = []
    here = tail_at[-1] if tail_at else -1
    while here >= 0:
        chosen.append(pairs[here])
        here = previous[here]
    return chosen[::-1]


def _place(state: SessionState, path: list[Msg], new_ids: set[str], arrival: Arrival) -> None:
    """Give ordinals: within the old lineage when the array only leaves out or appends, else in a new one."""
    at = {m.mid: i for i, m in enumerate(state.line)}
    places = [at.get(m.mid, -1) for m in path]
    first_new = next((i for i, place in enumerate(places) if place < 0), len(path))
    known = places[:first_new]
    last = max((i for i, m in enumerate(state.line) if not m.removed), default=-1)
    stays = (
        all(
            place < 0 and m.mid in new_ids
            for place, m in zip(places[first_new:], path[first_new:], strict=True)
        )
        and known == sorted(known)
        and (first_new == len(path) or not state.line or (bool(known) and known[-1] >= last))
    )
    if stays:
        ordinal = state.line[-1].ordinal if state.line else 0
        lineage = state.vars.lineage
        new = []
        for message in path[first_new:]:
            ordinal += 1
            message.lineage, message.ordinal = lineage, ordinal
            new.append(message)
        arrival.new = new
        revised = {m.mid: m for m in path}
        arrival.path = path
        arrival.line = [revised.get(m.mid, m) for m in state.line] + new
        return
    shared = 0
    while shared < min(len(path), len(state.line)) and path[shared].mid == state.line[shared].mid:
        shared += 1
    lineage = state.vars.lineage + 1
    ordinal = state.line[shared - 1].ordinal if shared else 0
    arrival.new_lineage = (lineage, state.vars.lineage, ordinal)
    revised_ids = {m.mid for m in arrival.revised}
    for index in range(shared, len(path)):
        ordinal += 1
        message = path[index]
        if message.mid in new_ids:
            message.lineage, message.ordinal = lineage, ordinal
            arrival.new.append(message)
        else:
            moved = replace(message, lineage=lineage, ordinal=ordinal)
            path[index] = moved
            if message.mid in revised_ids:
                arrival.revised = [moved if m.mid == moved.mid else m for m in arrival.revised]
            else:
                arrival.moved.append(moved)
    arrival.path = path
    arrival.line = None


def _first_change(state: SessionState, path: Sequence[Msg], revised: set[str]) -> int | None:
    """Index in the old path of the first message that the host itself changed or took away."""
    for index, old in enumerate(state.path):
        if index >= len(path) or path[index].mid != old.mid or old.mid in revised:
            return index
    return None
