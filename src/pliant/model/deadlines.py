"""Deadlines and intervals that depend on each other across processes, in seconds.

A party that waits for another one waits longer than the other may take. ``tests/pure/test_deadlines.py`` states each of
these inequalities. Deadlines of one module alone stand in that module; those of the scheduler are settings
(``core/settings.py``).
"""

from __future__ import annotations

# ---- a node's agent is heard -----------------------------------------------------------------------------

AGENT_HEARTBEAT_S = 2.0
"""An agent that has nothing else to say says so this often."""
AGENT_SILENCE_S = 30.0
"""Whoever holds the agent's link takes an agent for dead that has said nothing for so long."""
AGENT_GRACE_S = 5.0
"""The listener reads on for so long then: after a stop of its own process, words wait in the socket."""
CHANNEL_AGAIN_S = 1.0
"""Both ends of the channel repeat this often what the other end has not acknowledged."""

# ---- a link of the launch tree ---------------------------------------------------------------------------

LINK_BEAT_S = 2.0
"""Both ends of a link say this often that it stands, and look whether the other end has."""
LINK_SILENCE_S = 10.0
"""A link that brings nothing for so long counts as cut."""
LINK_GREET_S = 10.0
"""Both ends of a new link have proved by then who they are."""
LINK_PROBE_S = 2
"""The kernel asks a quiet machine this often whether it is there."""
LINK_PROBES = 4
"""So many of these questions go unanswered before the link counts as cut."""
CONTROLLER_STOPPED_S = 24 * 3600.0
"""The controller may be stopped for so long, as by Ctrl-Z, while its machine answers."""

# ---- a loss in the launch tree ---------------------------------------------------------------------------

TREE_HEAL_S = 4.5
"""Agents whose parent was lost, and the parent itself, may take so long to call again. When a machine goes dark, they
notice up to two beats later than the agent above it: one for its last word to them, one for their own look."""
TREE_CALL_S = 1.0
"""An agent calls a controller that is gone this often."""
TREE_MARGIN_S = 15.0
"""An agent may notice so much later than the controller that there is no way between them."""
FLOOD_AGAIN_S = 1.0
"""An agent tries this often to pass on a message for all to one that it cannot reach."""
FLOOD_TRIES = 60
"""An agent tries so often to pass it on. By then the other agent is lost, or another one has passed it on."""

# ---- a start ---------------------------------------------------------------------------------------------

AGENT_START_S = 30.0
"""Whoever starts an agent over ssh or srun waits so long for its call (default)."""
AGENT_HELLO_S = 10.0
"""The controller waits so long from that call to the first word of the agent itself."""
WARM_ANSWER_S = 3.0
"""The agent waits so long for a warm process to fork a rank, and does nothing else meanwhile."""
RANK_START_S = 30.0
"""The agent gives one step of a group's start so long: its token, its server, each of its ranks."""
GROUP_START_S = 60.0
"""A job's life waits so long for an agent to say that it started a group, or could not."""
LAUNCH_START_S = 60.0
"""``pliant launch`` waits so long for the program to start where its agents are there."""

# ---- the end of a rank, and the proof that a node is clean -----------------------------------------------

AGENT_KILL_S = 3.0
"""The kernel gets so long to remove a killed process before the node counts as not clean."""
AGENT_SCAN_S = AGENT_KILL_S
"""The agent gives one look through the process table so long."""
AGENT_LOOK_AGAIN_S = 0.02
"""The agent looks again so soon after it has killed."""
AGENT_TRACKERS_S = 1.0
"""Resource trackers get so long to clean up after what was killed."""
GROUP_LAST_S = 1.0
"""The agent keeps back the end of a group's last rank for so long, as its sessions may still bring something."""
GROUP_GONE_S = 15.0
"""A job waits so long for the kernel to remove what was killed, then gives it up: its node will not be proved clean."""
GROUP_LINGER_S = 30.0
"""When one group has ended in good order, the others of its job have so long to follow."""
NODE_PROOF_S = 30.0
"""The controller asks an agent again that has not said by then whether its node is clean. The second time it gives the
node up."""

# ---- the end of an agent ---------------------------------------------------------------------------------

AGENT_HANG_UP_S = AGENT_KILL_S
"""An agent that has ended everything waits so long for the sessions of those that it has ended to close."""
AGENT_STOP_S = 10.0
"""Whoever has told an agent to end waits so long: the driver that forked it, or its node's part of the tree."""
AGENT_EXIT_S = 0.5
"""A node's part of the tree waits so long from an agent's last word to the end of its process."""
FORK_KILL_S = 4.0
"""The driver waits so long for the kernel to remove an agent that it has killed."""
TREE_END_S = 12.0
"""A part of the tree that ends waits so long for those below it to end."""
TREE_LATE_S = 2.0
"""A root that ends waits so long for the agents of an earlier root to call once more."""
TREE_DEPART_S = 10.0
"""A node's part of the tree waits so long until all others know that it leaves."""
TREE_LEAVE_S = 30.0
"""The controller waits so long for a node that it has given back to leave the tree."""

# ---- the waits of a job ----------------------------------------------------------------------------------

JOB_DEADLINE_S = 60.0
"""The library waits so long for what has to be prompt (PLIANT_DEADLINE, default)."""
ROOT_ADMIT_S = 5
"""Accept waits so long for each of its two steps. The newcomers have said that they are there, so that both are a
matter of milliseconds. MPICH takes whole seconds, and other MPI libraries take none at all: there they are released a
second later."""
RELEASE_LEAVE_S = 2.0
"""A process connects in place of lost newcomers, which releases who waits for them. It may take so long to say that it
has connected, and as long to end."""
GROUP_ASK_S = 10.0
"""The controller lets a group wait so long for others in a resize; they have said that they are there. In a program's
own MPI_Comm_accept it waits as long as its MPI does."""

# ---- a policy's pass, and a command that waits for the controller ----------------------------------------

POLICY_PASS_S = 5.0
"""A policy may decide for so long (pass_deadline_s, default); nothing else happens in the controller meanwhile."""
POLICY_LAST_RESORT_S = 5.0
"""A policy that cannot be interrupted at all ends the process so much later; the agents then end the jobs."""
COMMAND_ANSWER_S = 10.0
"""A command waits so long for each step of the controller's answer, and the controller for the command."""
COMMAND_RETRY_S = 0.05
"""A command tries a controller this often whose queue is full."""
COMMAND_DRAIN_S = 1.0
"""The controller reads the rest of a request that is too long for at most so long."""
