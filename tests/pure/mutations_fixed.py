"""Changes that the world has to notice: each breaks a promise of the live system, or removes a deadline."""

from __future__ import annotations

from mutations_sites import Mutation


def _timer(name: str, file: str, before: str) -> Mutation:
    return Mutation(f"no deadline: {name}", file, before, "pass")


FIXED: tuple[Mutation, ...] = (
    Mutation(
        "a pass waits for nodes that do not come back",
        "core/core.py",
        "            return now >= self._pass_at\n",
        "            return False\n",
    ),
    Mutation(
        "reserved nodes are freed after accept",
        "protocol/resizing.py",
        '(ACCEPTED, "Withdraw"): Move(RECALLED, Effect.NOTHING)',
        '(ACCEPTED, "Withdraw"): Move(RECALLED, Effect.FREE)',
    ),
    Mutation(
        "reserved nodes are freed at accept",
        "protocol/resizing.py",
        '(OFFERED, "Accept"): Move(ACCEPTED, Effect.START)',
        '(OFFERED, "Accept"): Move(ACCEPTED, Effect.FREE)',
    ),
    Mutation(
        "nodes of a failed resize are freed at once",
        "core/state.py",
        "        self.nodes.soil(job.id, resize.nodes)",
        "        self.nodes.give(resize.nodes & ~self.nodes.lost_mask)",
    ),
    Mutation(
        "a done of a stale epoch is taken",
        "protocol/scheduler_side.py",
        "if message.epoch < self.epoch:",
        "if message.epoch < self.epoch and not isinstance(message, m.Done):",
    ),
    Mutation(
        "clean without proof: what is not clean is taken for it",
        "live/cluster/nodes.py",
        "        if proof.clean:",
        "        if True:",
    ),
    Mutation(
        "clean without proof: nobody is asked",
        "live/cluster/cluster.py",
        "                    self.nodes.prove(command.job, node)\n            case c.Acquire():",
        "                    self._bus.happened(e.Clean(command.job, NodeSet.of([node])))\n            case c.Acquire():",
    ),
    Mutation(
        "group_lost is not told",
        "live/job/life.py",
        "                self._tell_root(m.GroupLost(group.number, group.why(error)))",
        "                pass",
    ),
    Mutation(
        "a released group's exit fails the job",
        "live/job/life.py",
        "        elif code and not group.released:",
        "        elif code:",
    ),
    Mutation(
        "linger is dropped",
        "live/job/life.py",
        '        self._effects.later(("linger", self.number, group.number), GROUP_LINGER_S)',
        "        pass",
    ),
    Mutation(
        "action before record",
        "../../lab/src/pliant_lab/injection/standins/head.py",
        """        for line in lines:
            self.disk.write(line)
        self._heed_disk()
        outside.witness.recorded(records)
        self._note_losses(self.cluster.wanted)
        outside.witness.handled(self.cluster.told, records, self.cluster.wanted)
        for output in outputs:
            self._carry_out(output)
""",
        """        for output in outputs:
            self._carry_out(output)
        for line in lines:
            self.disk.write(line)
        self._heed_disk()
        outside.witness.recorded(records)
        outside.witness.handled(self.cluster.told, records, self.cluster.wanted)
""",
    ),
    Mutation(
        "Start is repeated at resume",
        "live/cluster/cluster.py",
        """        self._hold("resume", why)
""",
        """        self._hold("resume", why)
        for command in self.core.unanswered():
            if isinstance(command, c.Start) and not command.resize:
                self._carry_out(command)
""",
    ),
    Mutation(
        "an old root is obeyed",
        "protocol/scheduler_side.py",
        "        if group != self.root:",
        "        if False:",
    ),
    Mutation(
        "the old root stays root",
        "protocol/scheduler_side.py",
        "            self.root = message.root",
        "            pass",
    ),
    Mutation(
        "a late accept starts groups",
        "core/resizes.py",
        "        if resize.started:\n            self._ledger.commands.append(",
        "        if resize.arriving:\n            self._ledger.commands.append(",
    ),
    Mutation(
        "a rank leaves with 0, and its job does not mind",
        "live/job/life.py",
        "        if message.code != 0 or message.early:\n",
        "        if message.code != 0:\n",
    ),
    Mutation(
        "a fence is released one node early",
        "protocol/fence.py",
        "        if len(here) < len(self.groups):",
        "        if len(here) < len(self.groups) - 1:",
    ),
    Mutation(
        "an open wish delays who waits",
        "core/wishes.py",
        "grows = not state.waiting and state.now >= job.grow_from",
        "grows = state.now >= job.grow_from",
    ),
    Mutation(
        "an open wish is never granted",
        "core/wishes.py",
        "    for number in sorted(state.wishing):",
        "    for number in sorted(state.wishing)[:0]:",
    ),
    Mutation(
        "an open wish outlives another one",
        "core/resizes.py",
        "        if job.wish != kept:",
        "        if kept is not None:",
    ),
    # ---- deadlines: of a job's life ------------------------------------------------------------------
    _timer("job: session", "live/job/life.py", 'self._effects.later(("session", self.number), SESSION_S)'),
    _timer("job: start", "live/job/life.py", 'self._effects.later(("start", self.number, group.number), GROUP_START_S)'),
    _timer("job: kill", "live/job/life.py", 'self._effects.later(("kill", self.number), grace_s)'),
    _timer("job: gone", "live/job/life.py", 'self._effects.later(("gone", self.number, group.number), GROUP_GONE_S)'),
    _timer("job: tail", "live/job/life.py", 'self._effects.later(("tail", self.number), TAIL_S)'),
    # ---- of an agent's -------------------------------------------------------------------------------
    _timer(
        "agent: beat again",
        "live/node/life.py",
        "self._tell(m.Heartbeat())\n                self._do(n.SetTimer(BEAT, AGENT_HEARTBEAT_S))",
    ),
    _timer(
        "agent: start of a group",
        "live/node/life.py",
        "self._do(n.WriteToken(group.job, group.number, group.token_file, group.token))\n"
        "        self._do(n.SetTimer(group.timer, RANK_START_S))",
    )._replace(after="self._do(n.WriteToken(group.job, group.number, group.token_file, group.token))"),
    _timer(
        "agent: start of a rank",
        "live/node/life.py",
        "            self._do(self._warmth.warmed(spawn))\n            self._do(n.SetTimer(group.timer, RANK_START_S))",
    )._replace(after="            self._do(self._warmth.warmed(spawn))\n            self._do(n.CancelTimer(group.timer))"),
    _timer("agent: last words", "live/node/life.py", "self._do(n.SetTimer(group.last_timer, GROUP_LAST_S))"),
    _timer("agent: patience of a proof", "live/node/life.py",
           "self._do(n.SetTimer(key, min(max(0.0, order.patience_s), PATIENCE_S)))"),
    _timer("agent: scan", "live/node/life.py", "self._do(n.SetTimer(removal.key, AGENT_SCAN_S))"),
    _timer("agent: scan again", "live/node/life.py", "self._do(n.SetTimer(removal.key, AGENT_LOOK_AGAIN_S))"),
    _timer("agent: sessions at the end", "live/node/life.py", "self._do(n.SetTimer(SESSIONS, AGENT_HANG_UP_S))"),
    _timer("agent: hello", "live/node/sessions.py", "self._do(n.SetTimer(_timer(new.session), HELLO_S))"),
    # ---- of the cluster's and the core's -------------------------------------------------------------
    _timer("cluster: submit", "live/cluster/cluster.py",
           'self._bus.outputs.append(o.SetTimer(("submit",), waiting[0].submit_s))'),
    _timer("cluster: wake", "live/cluster/cluster.py", 'self._bus.outputs.append(o.SetTimer(("wake",), command.at))'),
    _timer("cluster: proof", "live/cluster/nodes.py",
           "self._bus.send(number, m.Prove(job, tuple(keep)))\n        "
           'self._bus.later(("proof", job, number), NODE_PROOF_S)')
    ._replace(after="self._bus.send(number, m.Prove(job, tuple(keep)))"),
    _timer("core: walltime", "core/core.py", "self._ledger.end(job, JobState.TIMEOUT, job.over_why(now))"),
    _timer("core: a resize that does not end", "core/resizes.py", "self._ledger.end(job, JobState.FAILED, why)"),
    Mutation(
        "no deadline: core: an answer",
        "core/core.py",
        "if resize is None or resize.deadline > now or job.ending is not None:",
        'if resize is None or resize.deadline > now or job.ending is not None or resize.stage == "offered":',
    ),
    Mutation(
        "no deadline: core: an accepted resize",
        "core/core.py",
        "if resize is None or resize.deadline > now or job.ending is not None:",
        'if resize is None or resize.deadline > now or job.ending is not None or resize.stage == "accepted":',
    ),
    # ---- of nodes and links --------------------------------------------------------------------------
    Mutation(
        "fleet: an acknowledgement before the record",
        "live/control.py",
        "fleet.acknowledge(written=self._written and not held)",
        "fleet.acknowledge(written=True)",
    ),
    Mutation(
        "fleet: a message is taken twice",
        "live/fleet/channel.py",
        "    return after <= heard < number",
        "    return after <= heard",
    ),
    Mutation(
        "fleet: a message is taken before its turn",
        "live/fleet/channel.py",
        "    return after <= heard < number",
        "    return heard < number",
    ),
    Mutation(
        "fleet: a lost order is not told again",
        "live/fleet/fleet.py",
        "            for told in node.link.sent.again():",
        "            for told in ():",
    ),
    Mutation(
        "fleet: what an agent told and was lost is not told again",
        "live/node/uplink.py",
        "        for told in self._outbox.again():",
        "        for told in ():",
    ),
    Mutation(
        "fleet: an agent's first words are not told again",
        "live/node/uplink.py",
        "        if not self._greeted:\n            self.greet()\n            return",
        "        if not self._greeted:\n            return",
    ),
    Mutation(
        "fleet: the orders of a new controller pass for its predecessor's",
        "live/fleet/node.py",
        "            self.sent = Sender(hello.obeyed)",
        "            self.sent = Sender()",
    ),
    Mutation(
        "fleet: orders that wait for a link are forgotten",
        "live/fleet/node.py",
        "return [*again, *map(self.sent.tell, unsent)]",
        "return again",
    ),
    Mutation(
        "fleet: a node is used again though not all there could be ended",
        "live/fleet/fleet.py",
        "        final = not clean or node.restarts >= self._site.restarts",
        "        final = node.restarts >= self._site.restarts",
    ),
    Mutation(
        "fleet: nothing is ended before another agent is started",
        "live/fleet/fleet.py",
        "                self.outputs.append(o.Clear(node.name))\n\n    def _cleared",
        '                self._cleared(node, "")\n\n    def _cleared',
    ),
    Mutation(
        "fleet: a node is lost as soon as its link is",
        "live/fleet/fleet.py",
        "            if self._site.grace_s:\n                self.events",
        "            if False:\n                self.events",
    ),
    Mutation(
        "fleet: a node that was given back stays",
        "live/fleet/fleet.py",
        "            self.events.append(o.Returned((node.name,)))\n        else:",
        "            pass\n        else:",
    ),
    _timer("fleet: an agent that does not come", "live/fleet/fleet.py", 'self._later("start", node, self._patience_s + len(nodes) * self._site.each_s)'),
    Mutation(
        "no deadline: fleet: an agent that does not come back",
        "live/fleet/fleet.py",
        '                self._later("grace", node, self._site.grace_s + self._site.margin_s)\n            else:',
        "                pass\n            else:",
    ),
    Mutation(
        "fleet: a number is taken twice",
        "live/cluster/nodes.py",
        "        there = self._state.nodes.all_mask | self.named(names).mask",
        "        there = self.named(names).mask",
    ),
    Mutation(
        "fleet: a node that has expired stays, and gets jobs",
        "core/term.py",
        "        return without(self.over(), self._state.nodes.reclaimed_mask)",
        "        return 0",
    ),
    Mutation(
        "fleet: a grant after withdrawal is used",
        "live/fleet/fleet.py",
        "        elif node.is_clearing:\n            pass\n",
        "        elif node.is_clearing:\n            if not node.is_known and node.stage is NodeStage.LEAVING:\n"
        "                self.events.append(o.Granted((name,), (hello.slots,), need=node.need))\n",
    ),
    Mutation(
        "fleet: a node that was withdrawn comes all the same",
        "live/fleet/fleet.py",
        "            node.why = WITHDRAWN\n            self._leave(node)\n",
        '            self.events.append(o.Refused(1, f"{node.name}: {WITHDRAWN}"))\n',
    ),
    Mutation(
        "fleet: a withdrawal takes nodes that have come",
        "live/fleet/fleet.py",
        "if not node.is_known and node.stage is not NodeStage.LEAVING",
        "if node.stage is not NodeStage.LEAVING",
    ),
    Mutation(
        "fleet: a node that could not be cleared is added again",
        "live/fleet/fleet.py",
        "if name not in self.nodes and name not in self._spoilt)",
        "if name not in self.nodes)",
    ),
    Mutation(
        "fleet: an agent that nobody has asked for is left there",
        "live/fleet/fleet.py",
        "                self.outputs.append(o.Clear(name))\n        elif",
        "                pass\n        elif",
    ),
    _timer("fleet: an agent that does not leave", "live/fleet/fleet.py", 'self._later("leave", node, self._site.stop_s)'),
    Mutation(
        "fleet: nodes that are asked back are free",
        "core/nodes.py",
        "if going := mask & self.reclaimed_mask:",
        "if going := 0:",
    ),
    Mutation(
        "fleet: a node that is back is free before the job that lost it is off",
        "core/nodes.py",
        "            new &= ~job.nodes\n            if job.resize",
        "            if job.resize",
    ),
    Mutation(
        "fleet: nodes that were given back are still there",
        "core/nodes.py",
        "        self.all_mask &= keep\n",
        "",
    ),
    # ---- of expansions by MPI_Comm_spawn -------------------------------------------------------------
    Mutation(
        "spawning: newcomers give up before those who wait for others",
        "job/spawning/spawn_tree.py",
        "    return max(starts.values()) + 2",
        "    return 1",
    ),
    Mutation(
        "spawning: newcomers that nobody waits for are not told",
        "job/spawning/starter.py",
        "        yield from there.call(go=False)",
        "        pass",
    ),
    Mutation(
        "spawning: ranks stay in the order in which they met",
        "job/spawning/newcomer.py",
        "if connections.order != tuple(sorted(connections.order)):",
        "if False:",
    ),
    Mutation(
        "spawning: one port a group for all rounds",
        "plan/connect.py",
        'f"r{resize}/port/{number}/{low}"',
        'f"r{resize}/port/{low}"',
    ),
    Mutation(
        "spawning: nobody says who is late",
        "job/spawning/spawn_tree.py",
        "        except (Stalled, o.Failed):\n            return True\n        return False",
        "        except (Stalled, o.Failed):\n            pass\n        return False",
    ),
    Mutation(
        "spawning: those below are not called off",
        "job/spawning/spawn_tree.py",
        "            if self._speaks_to(child):\n                yield from self._spared",
        "            if self._speaks_to(child) and not told.error:\n                yield from self._spared",
    ),
    Mutation(
        "spawning: the phase merge is not said",
        "job/spawning/sources.py",
        "    yield o.Reach(Phase.MERGE)\n",
        "",
    ),
    Mutation(
        "spawning: a process that starts others and says nothing ends the job",
        "job/spawning/starter.py",
        "    except Stalled as error:\n        silent",
        "    except Stalled as error:\n        raise\n        silent",
    ),
    Mutation(
        "spawning: at its end the job waits for that process for ever",
        "job/spawning/starter.py",
        "m.Outcome, what, share=failed + 2)",
        "m.Outcome, what, limited=False)",
    ),
    Mutation(
        "spawning: who leaves does not say that it stands still",
        "job/spawning/starter.py",
        "    except Stalled:\n        return True",
        "    except Stalled:\n        return last",
    ),
    Mutation(
        "spawning: sources give up before their root, which waits for that process",
        "job/spawning/sources.py",
        "share=patience(plan) + 1)",
        "share=patience(plan))",
    ),
    # ---- of launch trees whose controller begins again ------------------------------------------------
    Mutation(
        "tree: a loss that an agent tells is believed before all have called",
        "live/tree/branch.py",
        "        if (awaited := self._awaited.get(EARLIER)) is None:\n            return lost\n",
        "        if True or (awaited := self._awaited.get(EARLIER)) is None:\n            return lost\n",
    ),
    Mutation(
        "tree: an agent of an earlier root is begun anew",
        "live/tree/branch.py",
        "rank >= self._first and rank not in self.reached",
        "rank not in self.reached",
    ),
    Mutation(
        "tree: one that is given up is not told",
        "live/tree/branch.py",
        "        if not self._seat.rank and self._subtree is not None:",
        "        if False:",
    ),
    Mutation(
        "tree: those that an earlier root has lost are not known",
        "live/tree/branch.py",
        "        self.gone = {rank: BEFORE for rank in range(1, self._first) if rank not in self._nodes}\n",
        "",
    ),
    Mutation(
        "tree: ranks are given again",
        "live/tree/branch.py",
        "        self.late = range(earlier.agents + 1, earlier.following)\n",
        "        self.late = range(earlier.agents + 1, earlier.agents + 1)\n",
    ),
    Mutation(
        "tree: an agent is started anew before that is told",
        "live/tree/branch.py",
        "        ranks = self._add(nodes, [rank - 1 for rank in lost])\n",
        "        ranks = self._add(nodes, [rank - 1 for rank in lost])\n        self._start()\n",
    ),
    Mutation(
        "tree: those below are not told that there is no controller",
        "live/tree/branch.py",
        "            self.tell(rank, Adrift(on))\n",
        "            pass\n",
    ),
    Mutation(
        "tree: a controller that is gone is called once",
        "live/tree/branch.py",
        'self.do(b.SetTimer("call 0", TREE_CALL_S))',
        "pass",
    ),
    _timer("tree: without a controller", "live/tree/branch.py",
           'self.do(b.SetTimer("adrift 0", self._seat.grace_s))'),
    _timer("tree: until all have called a root that begins again", "live/tree/branch.py",
           'self.do(b.SetTimer(f"heal {EARLIER}", self._seat.grace_s))'),
    Mutation(
        "tree: the grace goes on when there is a controller again",
        "live/tree/branch.py",
        'self.do(b.CancelTimer("adrift 0"))',
        "pass",
    ),
    Mutation(
        "tree: an agent that is to leave waits for a controller",
        "live/tree/branch.py",
        "                if self._adrift:\n                    self._depart()",
        "                if False:\n                    self._depart()",
    ),
)  # fmt: skip

HARMLESS: dict[str, str] = {
    "Start is repeated at resume": "an agent knows its groups by their tokens, and answers the order again as before",
    "no deadline: job: session": "it only writes a hint into the job's log, which is written at the end too",
    "no deadline: agent: scan again": "the limit of the scan before is still set, and looks again when it is over",
}
"""Those that no world can notice, with the mechanism that makes each of them harmless."""
