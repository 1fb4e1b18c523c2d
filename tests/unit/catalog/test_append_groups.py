"""Who leads the appends that wait for one table, and whose turn it is when a group has ended."""

from __future__ import annotations

from typing import Any, cast

from frazil.catalog.appends.group import MOST_TICKETS, Groups, Ticket

KEY, OTHER = ("default", "ns", "t"), ("default", "ns", "other")


def tickets(groups: Groups, count: int, key: tuple[str, ...] = KEY) -> list[Ticket]:
    """Tickets that have come one after the other."""
    nothing = cast("Any", None)
    waiting = [Ticket(nothing, nothing, nothing) for _ in range(count)]
    for ticket in waiting:
        groups.add(key, ticket)
    return waiting


def turns(waiting: list[Ticket]) -> list[bool]:
    return [ticket.turn.is_set() for ticket in waiting]


def test_the_first_of_each_table_leads_and_the_others_wait() -> None:
    groups = Groups()
    waiting = [*tickets(groups, 2), *tickets(groups, 2, OTHER)]
    assert turns(waiting) == [True, False, True, False]


def test_those_that_were_taken_have_their_turn_and_the_next_one_leads() -> None:
    groups = Groups()
    first = tickets(groups, 2)
    taken = groups.take(KEY)
    late = tickets(groups, 2)
    assert (taken, turns(first), turns(late)) == (first, [True, False], [False, False])
    groups.end(KEY, first[0], taken)
    assert (turns(first), turns(late), groups.take(KEY)) == ([True, True], [True, False], late)


def test_a_group_has_a_limit_and_the_others_are_the_next_one() -> None:
    groups = Groups()
    waiting = tickets(groups, MOST_TICKETS + 2)
    taken = groups.take(KEY)
    groups.end(KEY, waiting[0], taken)
    assert (taken, turns(waiting)) == (waiting[:MOST_TICKETS], [True] * (MOST_TICKETS + 1) + [False])
    assert groups.take(KEY) == waiting[MOST_TICKETS:]


def test_one_that_got_no_lock_is_not_committed_by_the_next_one() -> None:
    """Its client has an error: nothing may come in for it later."""
    groups = Groups()
    waiting = tickets(groups, 3)
    groups.end(KEY, waiting[0], [])
    assert (turns(waiting), groups.take(KEY)) == ([True, True, False], waiting[1:])


def test_a_table_without_waiting_appends_is_forgotten() -> None:
    groups = Groups()
    for _ in range(2):
        (ticket,) = tickets(groups, 1)
        assert turns([ticket]) == [True]
        groups.end(KEY, ticket, groups.take(KEY))
    assert (groups._waiting, groups._led) == ({}, set())
