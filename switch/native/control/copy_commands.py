"""Commands about copies of packets: multicast groups and their nodes, clone sessions."""

from __future__ import annotations

from finsy.proto import p4r

from switch.native.control.command_base import CommandBase, Lines
from switch.native.control.controlled import Controlled
from switch.native.control.literals import LiteralError, number
from switch.native.p4runtime.errors import P4RuntimeError


class CopyCommands(CommandBase):
    """Multicast and clones. P4Runtime sees the same groups and sessions."""

    def __init__(self, switch: Controlled) -> None:
        super().__init__(switch)
        self._nodes: dict[int, tuple[int, list[int]]] = {}
        """Multicast nodes: handle -> (rid, ports)."""
        self._groups: dict[int, list[int]] = {}
        """Multicast groups made here: id -> nodes."""
        self._to_groups: dict[int, int] = {}
        """Sessions that copy to a multicast group: id -> group. P4Runtime has no words for them."""

    def do_mirroring_add(self, session: str, port: str) -> Lines:
        """mirroring_add SESSION PORT"""
        entry = _session(number(session, "session"))
        entry.clone_session_entry.replicas.add(egress_port=number(port, "port"))
        self._set_copies(entry)
        self._to_groups.pop(number(session, "session"), None)
        return []

    def do_mirroring_add_mc(self, session: str, group: str) -> Lines:
        """mirroring_add_mc SESSION GROUP"""
        entry, mgid = _session(number(session, "session")), number(group, "group")
        _group(mgid)
        self._set_copies(entry)
        self._engine.clone_session_set(entry.clone_session_entry.session_id, [], group=mgid)
        self._to_groups[entry.clone_session_entry.session_id] = mgid
        return []

    def do_mirroring_delete(self, session: str) -> Lines:
        """mirroring_delete SESSION"""
        self._to_groups.pop(number(session, "session"), None)
        self._switch.write_copies(p4r.Update.DELETE, _session(number(session, "session")))
        return []

    def do_mirroring_get(self, session: str) -> Lines:
        """mirroring_get SESSION"""
        found = self._switch.read_copies(_session(number(session, "session")))
        if number(session, "session") in self._to_groups:
            mgid = self._to_groups[number(session, "session")]
            return [f"MirroringSessionConfig(port=None, mgid={mgid})"]
        ports = ", ".join(
            str(replica.egress_port) for entry in found for replica in entry.clone_session_entry.replicas
        )
        return [f"MirroringSessionConfig(port={ports}, mgid=None)"]

    def do_mc_mgrp_create(self, group: str) -> Lines:
        """mc_mgrp_create GROUP"""
        mgid = number(group, "group")
        self._switch.write_copies(p4r.Update.INSERT, _group(mgid))
        self._groups[mgid] = []
        return [f"Creating multicast group {mgid}"]

    def do_mc_mgrp_destroy(self, group: str) -> Lines:
        """mc_mgrp_destroy GROUP"""
        mgid = number(group, "group")
        self._switch.write_copies(p4r.Update.DELETE, _group(mgid))
        self._groups.pop(mgid, None)
        return [f"Destroying multicast group {mgid}"]

    def do_mc_node_create(self, rid: str, *ports: str) -> Lines:
        """mc_node_create RID PORT…"""
        handle = next(h for h in range(len(self._nodes) + 1) if h not in self._nodes)
        self._nodes[handle] = number(rid, "rid"), _ports(ports)
        return [
            f"Creating node with rid {rid} , port map {_port_map(self._nodes[handle][1])} and lag map ",
            f"node was created with handle {handle}",
        ]

    def do_mc_node_update(self, node: str, *ports: str) -> Lines:
        """mc_node_update NODE PORT…"""
        handle = self._node(node)
        self._nodes[handle] = self._nodes[handle][0], _ports(ports)
        self._regroup([mgid for mgid, nodes in self._groups.items() if handle in nodes])
        return [f"Updating node {handle} with port map {_port_map(self._nodes[handle][1])} and lag map "]

    def do_mc_node_associate(self, group: str, node: str) -> Lines:
        """mc_node_associate GROUP NODE"""
        mgid, handle = self._own_group(group), self._node(node)
        if handle in self._groups[mgid]:
            raise LiteralError(f"node {handle} is in group {mgid} already")
        self._groups[mgid].append(handle)
        self._regroup([mgid])
        return [f"Associating node {handle} to multicast group {mgid}"]

    def do_mc_node_dissociate(self, group: str, node: str) -> Lines:
        """mc_node_dissociate GROUP NODE"""
        mgid, handle = self._own_group(group), self._node(node)
        if handle not in self._groups[mgid]:
            raise LiteralError(f"node {handle} is not in group {mgid}")
        self._groups[mgid].remove(handle)
        self._regroup([mgid])
        return [f"Dissociating node {handle} from multicast group {mgid}"]

    def do_mc_node_destroy(self, node: str) -> Lines:
        """mc_node_destroy NODE"""
        handle = self._node(node)
        del self._nodes[handle]
        held_by = [mgid for mgid, nodes in self._groups.items() if handle in nodes]
        for mgid in held_by:
            self._groups[mgid].remove(handle)
        self._regroup(held_by)
        return [f"Destroying node {handle}"]

    def do_mc_dump(self) -> Lines:
        """mc_dump"""
        lines = ["==========", "MC ENTRIES"]
        for mgid, nodes in sorted(self._groups.items()):
            lines += ["**********", f"mgrp({mgid})"]
            for handle in nodes:
                rid, ports = self._nodes[handle]
                lines.append(
                    f"  -> (L1h={handle}, rid={rid}) -> (ports=[{', '.join(map(str, ports))}], lags=[])"
                )
        return [*lines, "==========", "LAGS", "=========="]

    def _node(self, text: str) -> int:
        handle = number(text, "node")
        if handle not in self._nodes:
            raise LiteralError(f"there is no node {handle}")
        return handle

    def _own_group(self, text: str) -> int:
        mgid = number(text, "group")
        if mgid not in self._groups:
            raise LiteralError(f"there is no multicast group {mgid} that was created by mc_mgrp_create")
        return mgid

    def _regroup(self, groups: list[int]) -> None:
        for mgid in groups:
            entry = _group(mgid)
            for handle in self._groups[mgid]:
                rid, ports = self._nodes[handle]
                for port in ports:
                    entry.multicast_group_entry.replicas.add(egress_port=port, instance=rid)
            self._switch.write_copies(p4r.Update.MODIFY, entry)

    def _set_copies(self, entry: p4r.PacketReplicationEngineEntry) -> None:
        try:
            self._switch.write_copies(p4r.Update.INSERT, entry)
        except P4RuntimeError:
            self._switch.write_copies(p4r.Update.MODIFY, entry)


def _port_map(ports: list[int]) -> str:
    return f"{sum(1 << port for port in ports):b}" if ports else ""


def _ports(words: tuple[str, ...]) -> list[int]:
    if "|" in words:
        if words[-1] != "|":
            raise LiteralError("link aggregation groups are not supported")
        words = words[:-1]
    ports = [number(word, "port") for word in words]
    for port in ports:
        if not 0 <= port < 512:
            raise LiteralError(f"port {port} is not in 0..511")
    if len(set(ports)) < len(ports):
        raise LiteralError("a port is given twice")
    return ports


def _session(session: int) -> p4r.PacketReplicationEngineEntry:
    if not 0 < session < 1 << 15:
        raise LiteralError(f"session {session} is not in 1..32767")
    return p4r.PacketReplicationEngineEntry(clone_session_entry=p4r.CloneSessionEntry(session_id=session))


def _group(mgid: int) -> p4r.PacketReplicationEngineEntry:
    if not 0 < mgid < 1 << 16:
        raise LiteralError(f"multicast group {mgid} is not in 1..65535")
    return p4r.PacketReplicationEngineEntry(
        multicast_group_entry=p4r.MulticastGroupEntry(multicast_group_id=mgid)
    )
