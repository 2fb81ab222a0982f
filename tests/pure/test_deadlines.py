"""Whoever waits for another party waits longer than the other may take."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path
from typing import NamedTuple

import pytest

from pliant.core.settings import Settings
from pliant.drivers.tree import Hosts, TreeNodes
from pliant.launch.pmix import binding
from pliant.launch.tree import agent as tree_agent
from pliant.launch.tree.posting import SSH_SHARE, Starting
from pliant.live.tree.messages import Seat
from pliant.model import deadlines as d
from pliant.protocol.messages import Prove


class Pair(NamedTuple):
    """``longer`` has to be at least ``by`` seconds longer than ``shorter``; ``why`` says what goes wrong otherwise."""

    name: str
    shorter: float
    longer: float
    by: float
    why: str


CUT_S = d.LINK_SILENCE_S + d.LINK_BEAT_S
"""At the latest an end of a link takes it for cut so long after the last word."""
HEALED_S = CUT_S + d.TREE_HEAL_S + 2 * d.CHANNEL_AGAIN_S
"""Behind a loss in the tree, messages that were lost with it have come again after so long."""
PROVED_S = d.AGENT_KILL_S + d.AGENT_LOOK_AGAIN_S + d.AGENT_SCAN_S
"""The agent kills and looks for the last time just before its limit."""
BURIED_S = tree_agent.BURIALS * 0.01
SETTINGS = Settings()

PAIRS = [
    # ---- a node's agent is heard ---------------------------------------------------------------------
    Pair(
        "heartbeats", 3 * d.AGENT_HEARTBEAT_S, d.AGENT_SILENCE_S, 10.0,
        "an agent on a busy machine counts as dead",
    ),
    Pair(
        "heartbeats after a stop", 2 * d.AGENT_HEARTBEAT_S, d.AGENT_GRACE_S, 1.0,
        "an agent counts as dead because its listener was stopped",
    ),
    Pair(
        "a warm process and heartbeats", d.AGENT_HEARTBEAT_S + d.WARM_ANSWER_S, d.AGENT_SILENCE_S, 10.0,
        "an agent that waits for a warm process counts as dead",
    ),
    Pair(
        "a warm process and the grace", d.WARM_ANSWER_S, d.AGENT_GRACE_S, 1.0,
        "an agent that waits for a warm process while its listener is stopped counts as dead",
    ),
    Pair(
        "a dead agent and a start", d.AGENT_SILENCE_S + d.AGENT_GRACE_S, d.GROUP_START_S, 5.0,
        "the job hears of a start that never ends instead of a lost node",
    ),
    Pair(
        "a dead agent and a proof", d.AGENT_SILENCE_S + d.AGENT_GRACE_S, 2 * d.NODE_PROOF_S, 5.0,
        "a lost node is told as one that was not proved clean",
    ),
    # ---- a link of the launch tree -------------------------------------------------------------------
    Pair("beats", 3 * d.LINK_BEAT_S, d.LINK_SILENCE_S, 2.0, "a busy end counts as cut"),
    Pair(
        "probes of the kernel", d.LINK_PROBE_S * (1 + d.LINK_PROBES), CUT_S, 0.0,
        "an agent waits for a machine that is gone longer than for one that is silent",
    ),
    Pair("a stopped controller", CUT_S, d.CONTROLLER_STOPPED_S, 3600.0, "Ctrl-Z ends the run"),
    Pair(
        "a controller whose policy decides", d.POLICY_PASS_S + d.POLICY_LAST_RESORT_S, d.CONTROLLER_STOPPED_S,
        3600.0, "agents leave a controller whose policy decides",
    ),
    Pair(
        "ssh and an agent", SSH_SHARE * d.AGENT_START_S, d.AGENT_START_S, 5.0,
        "ssh is killed before it can say why it does not connect",
    ),
    Pair("greetings and a start", d.LINK_GREET_S, d.AGENT_START_S, 10.0, "a slow greeting is a failed start"),
    # ---- a loss in the launch tree -------------------------------------------------------------------
    Pair(
        "both sides of a dark machine", 2 * d.LINK_BEAT_S, d.TREE_HEAL_S, 0.5,
        "nodes below a machine that has gone dark are given up though they are well",
    ),
    Pair(
        "a cut link and the grace of agents", CUT_S + d.TREE_CALL_S, d.TREE_MARGIN_S, 1.0,
        "the controller gives up an agent that is still within its grace",
    ),
    Pair(
        "floods", HEALED_S + d.LINK_GREET_S, d.FLOOD_AGAIN_S * d.FLOOD_TRIES, 10.0,
        "an agent gives up one that others have yet to adopt",
    ),
    Pair(
        "calls of agents of an earlier root", d.TREE_CALL_S, d.TREE_LATE_S, 0.5,
        "an agent that could have been told to end calls until its own grace is over",
    ),
    Pair("a healed tree and a start", HEALED_S + d.RANK_START_S, d.GROUP_START_S, 5.0, "the job fails needlessly"),
    Pair(
        "a healed tree and a launch", HEALED_S + d.RANK_START_S, d.LAUNCH_START_S, 5.0,
        "a launch that survives losses fails",
    ),
    Pair(
        "a healed tree and a hello", HEALED_S, d.JOB_DEADLINE_S, 10.0,
        "a group ends because its welcome was lost with an agent in between",
    ),
    Pair(
        "a healed tree and ends", HEALED_S + d.GROUP_LAST_S, d.GROUP_LINGER_S, 5.0,
        "a job that has ended in good order fails, as the ends of its groups come apart",
    ),
    Pair(
        "a healed tree and a departure", d.TREE_HEAL_S + d.CHANNEL_AGAIN_S, d.TREE_DEPART_S, 1.0,
        "a node leaves before those below it have another parent",
    ),
    # ---- a start -------------------------------------------------------------------------------------
    Pair(
        "a rank and its group", d.RANK_START_S + d.WARM_ANSWER_S + 2 * d.CHANNEL_AGAIN_S, d.GROUP_START_S, 10.0,
        "the job hears nothing of the rank that did not start",
    ),
    Pair(
        "a warm process and a rank", d.WARM_ANSWER_S, d.RANK_START_S, 10.0,
        "a rank that could be executed cold counts as failed",
    ),
    Pair(
        "a call of PMIx and its server's start", binding.CALL_S, d.RANK_START_S, 10.0,
        "the server is given up before it can say which call did not end",
    ),
    # ---- the end of a rank, and the proof that a node is clean ---------------------------------------
    Pair("looks for what is left", 10 * d.AGENT_LOOK_AGAIN_S, d.AGENT_KILL_S, 1.0, "the agent looks too seldom"),
    Pair(
        "resource trackers", d.AGENT_TRACKERS_S, d.AGENT_KILL_S, 1.0,
        "a tracker that hangs is not killed, and the node counts as not clean",
    ),
    Pair(
        "a killed rank and its job", d.AGENT_KILL_S + d.GROUP_LAST_S + 2 * d.CHANNEL_AGAIN_S, d.GROUP_GONE_S, 5.0,
        "a rank counts as one that cannot be ended while its agent removes it",
    ),
    Pair(
        "a group's end and its proof", d.GROUP_LAST_S, Prove(1).patience_s, 1.0,
        "the proof kills a group whose last words are on their way",
    ),
    Pair(
        "a proof", Prove(1).patience_s + PROVED_S + 2 * d.CHANNEL_AGAIN_S, d.NODE_PROOF_S, 5.0,
        "the controller gives up a node whose agent does what it was asked for",
    ),
    Pair(
        "a healed tree and a proof", Prove(1).patience_s + PROVED_S + HEALED_S, 2 * d.NODE_PROOF_S, 5.0,
        "the controller gives up a clean node because an agent in between was lost",
    ),
    # ---- the end of an agent -------------------------------------------------------------------------
    Pair(
        "the kernel", d.AGENT_KILL_S, d.FORK_KILL_S, 0.0,
        "a node that its agent would prove clean is given up by its driver",
    ),
    Pair(
        "an agent's end", PROVED_S + d.AGENT_HANG_UP_S, d.AGENT_STOP_S, 0.5,
        "an agent is killed that still ends what it has started",
    ),
    Pair("an agent's last word", d.AGENT_EXIT_S, d.AGENT_STOP_S, 1.0, "an agent is killed behind its last word"),
    Pair(
        "an agent and those above it", d.AGENT_STOP_S + d.AGENT_EXIT_S + BURIED_S, d.TREE_END_S, 1.0,
        "a part of the tree hangs up while those below it clean up",
    ),
    Pair(
        "a node that is given back",
        d.AGENT_STOP_S + d.AGENT_EXIT_S + BURIED_S + d.TREE_DEPART_S, d.TREE_LEAVE_S, 1.0,
        "a node that leaves in good order is not used again",
    ),
    # ---- the waits of a job --------------------------------------------------------------------------
    Pair(
        "Accept", 2 * d.ROOT_ADMIT_S + 1.0 + 2 * d.RELEASE_LEAVE_S, d.JOB_DEADLINE_S, 10.0,
        "the watchdog ends a job that could go on without its newcomers",
    ),
    Pair(
        "Accept of Open MPI", d.GROUP_ASK_S, d.JOB_DEADLINE_S, 10.0,
        "the watchdog ends a job that could go on without its newcomers",
    ),
    Pair(
        "newcomers that wait for each other", SETTINGS.resize_deadline_s, d.JOB_DEADLINE_S, 10.0,
        "newcomers end themselves before the scheduler calls the resize off",
    ),
    Pair(
        "a killed job", d.GROUP_LAST_S, SETTINGS.kill_grace_s, 1.0,
        "a job that ends at SIGTERM is killed with its last words on their way",
    ),
    # ---- a command -----------------------------------------------------------------------------------
    Pair("a pass and a command", d.POLICY_PASS_S, d.COMMAND_ANSWER_S, 1.0, "a command fails amid a long pass"),
    Pair(
        "a controller that is ended", d.POLICY_PASS_S + d.POLICY_LAST_RESORT_S, d.COMMAND_ANSWER_S, 0.0,
        "a command says that it got no answer, and not that the controller is gone",
    ),
    Pair("tries of a command", 10 * d.COMMAND_RETRY_S, d.COMMAND_ANSWER_S, 1.0, "a command tries too seldom"),
    Pair(
        "a request that is too long", d.COMMAND_DRAIN_S, d.COMMAND_ANSWER_S, 1.0,
        "a command is not told that its request is too long",
    ),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_who_waits_waits_longer(pair: Pair) -> None:
    assert pair.longer >= pair.shorter + pair.by, f"otherwise {pair.why}"


@pytest.mark.parametrize("nodes", [1, 31, 32, 33, 64, 500])
def test_the_fleet_waits_for_agents_longer_than_the_tree(nodes: int, tmp_path: Path) -> None:
    """Otherwise it gives up nodes that the tree has yet to start, and the tree's reason comes too late."""
    names = tuple(f"n{number}" for number in range(nodes))
    site = TreeNodes(Hosts(names=names, starting=Starting(), degree="direct"), 1, "run", tmp_path).site
    in_tree_s = ceil(nodes / Seat(0, "").window) * d.AGENT_START_S
    for patience_s in (site.start_s, site.begin_s):
        assert patience_s + nodes * site.each_s >= in_tree_s + d.AGENT_HELLO_S


def test_each_deadline_of_the_module_is_in_an_inequality() -> None:
    """Of ``PAIRS``, or of what the fleet waits for agents by."""
    text = Path(__file__).read_text()
    pairs = text[: text.index("]  # fmt: skip")]
    stated = set(re.findall(r"\bd\.([A-Z_]+)", pairs)) | {"AGENT_START_S", "AGENT_HELLO_S"}
    assert {name for name in vars(d) if name.isupper()} == stated
