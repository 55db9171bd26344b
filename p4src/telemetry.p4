/* In-band telemetry, INT-MD 2.1 over UDP: source, transit and sink, at the moment the packet leaves its queue.
 *
 * docs/fabric.md has the layout. A hop either pushes exactly the words that were asked for or leaves the packet alone. */
#ifndef XOFF_TELEMETRY
#define XOFF_TELEMETRY

control Telemetry(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<32> node_id = 0;
    bit<16> domain_id = 0;
    bit<16> ns_per_tick = 0;
    bit<8> words = 0;
    bit<32> grown = 0; // IP packet length if this hop pushes

    action set_node(bit<32> node, bit<16> domain, bit<16> tick_ns) {
        node_id = node;
        domain_id = domain;
        ns_per_tick = tick_ns;
    }

    table telemetry_node {
        actions = { set_node; }
        default_action = set_node(0, 0, 1000);
    }

    action add_headers() {
        hdr.int_shim.setValid();
        hdr.int_shim.type = 1;
        hdr.int_shim.npt = 1;
        hdr.int_shim.reserved = 0;
        hdr.int_shim.length = 3;
        hdr.int_shim.original_dport = hdr.udp.dport;
        hdr.int_md.setValid();
        hdr.int_md.version = 2;
        hdr.int_md.discard = 0;
        hdr.int_md.hops_exceeded = 0;
        hdr.int_md.mtu_exceeded = 0;
        hdr.int_md.reserved = 0;
        hdr.int_md.hop_ml = 12;
        hdr.int_md.remaining_hops = 8;
        hdr.int_md.instructions = 0xfd00;
        hdr.int_md.domain_id = domain_id;
        hdr.int_md.ds_instructions = 0xc000;
        hdr.int_md.ds_flags = 0;
        hdr.udp.dport = INT_UDP_PORT;
        hdr.udp.length = hdr.udp.length + 16;
        hdr.ipv4.total_length = hdr.ipv4.total_length + 16;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + 16;
        meta.wire_length = meta.wire_length + 16;
    }

    action count_words() {
        words = (bit<8>) hdr.int_md.instructions[15:15] + (bit<8>) hdr.int_md.instructions[14:14]
              + (bit<8>) hdr.int_md.instructions[13:13] + (bit<8>) hdr.int_md.instructions[12:12]
              + ((bit<8>) hdr.int_md.instructions[11:11] << 1) + ((bit<8>) hdr.int_md.instructions[10:10] << 1)
              + ((bit<8>) hdr.int_md.instructions[9:9] << 1) + (bit<8>) hdr.int_md.instructions[8:8]
              + (bit<8>) hdr.int_md.instructions[7:7]
              + ((bit<8>) hdr.int_md.ds_instructions[15:15] << 1) + (bit<8>) hdr.int_md.ds_instructions[14:14];
        grown = (hdr.ipv4.isValid() ? (bit<32>) hdr.ipv4.total_length : (bit<32>) hdr.ipv6.payload_length + 40)
              + ((bit<32>) words << 2);
    }

    action count_hop(in bit<2> outcome) {
        int_hops.count((bit<32>) (sm.egress_port ++ outcome));
    }

    action push_node() {
        hdr.int_node.setValid();
        hdr.int_node.id = node_id;
    }

    action push_ports() {
        hdr.int_ports.setValid();
        hdr.int_ports.ingress = (bit<16>) meta.in_port;
        hdr.int_ports.egress = (bit<16>) meta.out_port;
    }

    action push_latency() {
        bit<64> ns = (bit<64>) (sm.egress_global_timestamp - meta.arrival) * (bit<64>) ns_per_tick;
        hdr.int_latency.setValid();
        hdr.int_latency.ns = ns > 0xfffffffe ? 32w0xfffffffe : ns[31:0];
    }

    action push_queue() {
        hdr.int_queue.setValid();
        hdr.int_queue.id = (bit<8>) meta.out_class;
        hdr.int_queue.bytes = meta.queue_bytes > 0xfffffe ? 24w0xfffffe : meta.queue_bytes[23:0];
    }

    action push_arrival() {
        hdr.int_arrival.setValid();
        hdr.int_arrival.ns = (bit<64>) meta.arrival * (bit<64>) ns_per_tick;
    }

    action push_departure() {
        hdr.int_departure.setValid();
        hdr.int_departure.ns = (bit<64>) sm.egress_global_timestamp * (bit<64>) ns_per_tick;
    }

    action push_level2() {
        hdr.int_level2.setValid();
        hdr.int_level2.unavailable = 0xffffffffffffffff;
    }

    action push_utilisation() {
        bit<32> share;
        utilisation.read(share, (bit<32>) sm.egress_port);
        hdr.int_utilisation.setValid();
        hdr.int_utilisation.share = share;
    }

    action push_buffer() {
        hdr.int_buffer.setValid();
        hdr.int_buffer.id = (bit<8>) meta.in_class;
        hdr.int_buffer.bytes = meta.held_bytes > 0xfffffe ? 24w0xfffffe : meta.held_bytes[23:0];
    }

    action push_tx_bytes() {
        hdr.int_tx_bytes.setValid();
        hdr.int_tx_bytes.bytes = meta.tx_bytes;
    }

    action push_rate() {
        hdr.int_rate.setValid();
        hdr.int_rate.kbps = meta.rate_kbps;
    }

    action account_push() {
        hdr.int_shim.length = hdr.int_shim.length + words;
        hdr.int_md.remaining_hops = hdr.int_md.remaining_hops - 1;
        hdr.udp.length = hdr.udp.length + ((bit<16>) words << 2);
        hdr.ipv4.total_length = hdr.ipv4.total_length + ((bit<16>) words << 2);
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + ((bit<16>) words << 2);
        meta.wire_length = meta.wire_length + ((bit<32>) words << 2);
    }

    action strip() {
        bit<16> removed = ((bit<16>) hdr.int_shim.length << 2) + 4;
        hdr.udp.dport = hdr.int_shim.original_dport;
        hdr.udp.length = hdr.udp.length - removed;
        hdr.ipv4.total_length = hdr.ipv4.total_length - removed;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length - removed;
        meta.wire_length = meta.wire_length - (bit<32>) removed;
        hdr.kept_shim = hdr.int_shim;
        hdr.kept_md = hdr.int_md;
        hdr.kept_node = hdr.int_node;
        hdr.kept_ports = hdr.int_ports;
        hdr.kept_latency = hdr.int_latency;
        hdr.kept_queue = hdr.int_queue;
        hdr.kept_arrival = hdr.int_arrival;
        hdr.kept_departure = hdr.int_departure;
        hdr.kept_level2 = hdr.int_level2;
        hdr.kept_utilisation = hdr.int_utilisation;
        hdr.kept_buffer = hdr.int_buffer;
        hdr.kept_tx_bytes = hdr.int_tx_bytes;
        hdr.kept_rate = hdr.int_rate;
        hdr.kept_stack = hdr.int_stack;
        hdr.int_shim.setInvalid();
        hdr.int_md.setInvalid();
        hdr.int_node.setInvalid();
        hdr.int_ports.setInvalid();
        hdr.int_latency.setInvalid();
        hdr.int_queue.setInvalid();
        hdr.int_arrival.setInvalid();
        hdr.int_departure.setInvalid();
        hdr.int_level2.setInvalid();
        hdr.int_utilisation.setInvalid();
        hdr.int_buffer.setInvalid();
        hdr.int_tx_bytes.setInvalid();
        hdr.int_rate.setInvalid();
        hdr.int_stack.setInvalid();
        meta.report = 1;
    }

    apply {
        telemetry_node.apply();
        if (meta.sampled == 1) {
            add_headers();
        }
        count_words();
        if (hdr.int_md.version != 2 || hdr.int_md.instructions[6:0] != 0 || hdr.int_md.ds_instructions[13:0] != 0
            || words != (bit<8>) hdr.int_md.hop_ml || hdr.udp.checksum != 0
            || (hdr.int_md.ds_instructions != 0 && hdr.int_md.domain_id != domain_id)) {
            count_hop(3);
        } else if (hdr.int_md.remaining_hops == 0) {
            hdr.int_md.hops_exceeded = 1;
            count_hop(1);
        } else if (grown > (bit<32>) meta.mtu || hdr.int_shim.length > 255 - words) {
            hdr.int_md.mtu_exceeded = 1;
            count_hop(2);
        } else {
            if (hdr.int_md.instructions[15:15] == 1) { push_node(); }
            if (hdr.int_md.instructions[14:14] == 1) { push_ports(); }
            if (hdr.int_md.instructions[13:13] == 1) { push_latency(); }
            if (hdr.int_md.instructions[12:12] == 1) { push_queue(); }
            if (hdr.int_md.instructions[11:11] == 1) { push_arrival(); }
            if (hdr.int_md.instructions[10:10] == 1) { push_departure(); }
            if (hdr.int_md.instructions[9:9] == 1) { push_level2(); }
            if (hdr.int_md.instructions[8:8] == 1) { push_utilisation(); }
            if (hdr.int_md.instructions[7:7] == 1) { push_buffer(); }
            if (hdr.int_md.ds_instructions[15:15] == 1) { push_tx_bytes(); }
            if (hdr.int_md.ds_instructions[14:14] == 1) { push_rate(); }
            account_push();
            count_hop(0);
        }
        if (meta.int_sink == 1) {
            if (hdr.int_md.discard == 1) {
                meta.drop_reason = DROP_INT_PROBE;
            }
            strip();
        }
    }
}

#endif
