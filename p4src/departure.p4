/* Departure: what happens to an admitted packet at the moment its transmission starts, or when it is thrown away. */
#ifndef XOFF_DEPARTURE
#define XOFF_DEPARTURE

#include "ecn.p4"
#include "telemetry.p4"

// Takes a packet's bytes off what is held and queued; `pfc_classes` is set if its upstream may send again.
control Release(inout metadata_t meta) {
    action release() {
        bit<32> ingress_index = (bit<32>) (meta.in_port ++ meta.in_class);
        bit<32> egress_index = (bit<32>) (meta.out_port ++ meta.out_class);
        held_bytes.read(meta.held_bytes, ingress_index);
        meta.held_bytes = meta.held_bytes |-| meta.length;
        held_bytes.write(ingress_index, meta.held_bytes);
        queue_bytes.read(meta.queue_bytes, egress_index);
        meta.queue_bytes = meta.queue_bytes |-| meta.length;
        queue_bytes.write(egress_index, meta.queue_bytes);
        bit<32> at_port;
        port_bytes.read(at_port, (bit<32>) meta.out_port);
        port_bytes.write((bit<32>) meta.out_port, at_port |-| meta.length);
        bit<8> mask;
        xoff_mask.read(mask, (bit<32>) meta.in_port);
        bit<8> drained = meta.held_bytes <= meta.xon_bytes ? mask & (8w1 << meta.in_class) : 0;
        xoff_mask.write((bit<32>) meta.in_port, mask & ~drained);
        meta.pfc_classes = drained;
        meta.pfc_port = meta.in_port;
    }

    apply {
        release();
    }
}

// The traffic manager had no room for an admitted packet, which it counts.
control Refusal(inout metadata_t meta, inout standard_metadata_t sm) {
    Release() release;

    apply {
        release.apply(meta);
        if (meta.pfc_classes != 0) {
            clone_preserving_field_list(CloneType.E2E, PFC_SESSION, KEPT_BY_COPY);
        }
    }
}

control Departure(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Release() release;
    Ecn() ecn;
    Telemetry() telemetry;

    action begin() {
        meta.wire_length = meta.length;
        tx_bytes.read(meta.tx_bytes, (bit<32>) sm.egress_port);
    }

    action set_egress_port(mac_t src, mac_t dst, bit<16> mtu, bit<32> rate_kbps, bit<1> int_sink) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        meta.mtu = mtu;
        meta.rate_kbps = rate_kbps;
        meta.int_sink = int_sink;
    }

    table egress_port {
        key = { sm.egress_port: exact @name("port"); }
        actions = { set_egress_port; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        release.apply(meta);
        begin();
        egress_port.apply();
        ecn.apply(hdr, meta, sm);
        if (hdr.int_md.isValid() || meta.sampled == 1) {
            telemetry.apply(hdr, meta, sm);
        }
        // One copy a pass: where both are due, the copy to LOOP_PORT carries the report and makes the second copy there.
        if (meta.pfc_classes != 0) {
            clone_preserving_field_list(CloneType.E2E, PFC_SESSION, KEPT_BY_COPY);
        } else if (meta.report == 1) {
            clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, KEPT_BY_COPY);
        }
    }
}

#endif
