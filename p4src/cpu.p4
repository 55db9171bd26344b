/* The controller's side of the switch: packet-out operations, packet-in reports and the timer packet's laps. */
#ifndef XOFF_CPU
#define XOFF_CPU

control PacketOut(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action send() {
        sm.egress_spec = hdr.packet_out.port;
        sm.priority = hdr.packet_out.class;
        meta.wire_length = sm.packet_length - 2;
        meta.out_class = hdr.packet_out.class;
    }

    action next_generation() {
        bit<16> generation;
        timer_generation.read(generation, 0);
        generation = generation + 1;
        timer_generation.write(0, generation);
        hdr.timer.setValid();
        hdr.timer.generation = generation;
        hdr.timer.port = 1;
        hdr.timer.laps = 0;
    }

    action start_timer() {
        hdr.ethernet.ethertype = ETHERTYPE_TIMER;
        sm.egress_spec = TIMER_PORT;
    }

#define RESET_CLASS(cls) \
        held_bytes.write((bit<32>) (hdr.packet_out.port ++ (class_t) cls), 0); \
        queue_bytes.write((bit<32>) (hdr.packet_out.port ++ (class_t) cls), 0);

    action reset_port() {
        RESET_CLASS(0)
        RESET_CLASS(1)
        RESET_CLASS(2)
        RESET_CLASS(3)
        RESET_CLASS(4)
        RESET_CLASS(5)
        RESET_CLASS(6)
        RESET_CLASS(7)
        port_bytes.write((bit<32>) hdr.packet_out.port, 0);
    }

    // Resume the upstream of a port whatever is held for it; what arrives above XOFF pauses it again.
    action resume_port() {
        meta.pfc_port = hdr.packet_out.port;
        xoff_mask.read(meta.pfc_classes, (bit<32>) hdr.packet_out.port);
        xoff_mask.write((bit<32>) hdr.packet_out.port, 0);
    }

    apply {
        if (hdr.packet_out.operation == OUT_SEND) {
            send();
        } else if (hdr.packet_out.operation == OUT_START_TIMER) {
            next_generation();
            start_timer();
        } else if (hdr.packet_out.operation == OUT_STOP_TIMER) {
            next_generation();
            mark_to_drop(sm);
        } else if (hdr.packet_out.operation == OUT_RESET_PORT || hdr.packet_out.operation == OUT_RESUME_PORT) {
            if (hdr.packet_out.operation == OUT_RESET_PORT) {
                reset_port();
            }
            resume_port();
            if (meta.pfc_classes != 0) {
                clone_preserving_field_list(CloneType.I2E, PFC_SESSION, KEPT_BY_COPY);
            }
            mark_to_drop(sm);
        } else {
            meta.in_port = CPU_PORT;
            meta.drop_reason = DROP_PACKET_OUT;
        }
        hdr.packet_out.setInvalid();
    }
}

control Report(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action make_report() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = meta.in_port;
        hdr.packet_in.egress_port = meta.out_port;
        hdr.packet_in.reason = IN_INT_REPORT;
        hdr.int_shim = hdr.kept_shim;
        hdr.int_md = hdr.kept_md;
        hdr.int_node = hdr.kept_node;
        hdr.int_ports = hdr.kept_ports;
        hdr.int_latency = hdr.kept_latency;
        hdr.int_queue = hdr.kept_queue;
        hdr.int_arrival = hdr.kept_arrival;
        hdr.int_departure = hdr.kept_departure;
        hdr.int_level2 = hdr.kept_level2;
        hdr.int_utilisation = hdr.kept_utilisation;
        hdr.int_buffer = hdr.kept_buffer;
        hdr.int_tx_bytes = hdr.kept_tx_bytes;
        hdr.int_rate = hdr.kept_rate;
        hdr.int_stack = hdr.kept_stack;
        truncate(512);
    }

    apply {
        if (meta.report == 1) {
            make_report();
        }
    }
}

/* Each lap visits one port: refreshes the pauses it has asked for, closes its utilisation window. */
control TimerLap(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    port_t port = 0;
    bit<16> generation = 0;
    bit<16> last_port = 0;
    ticks_t started = 0;
    ticks_t elapsed = 0;
    bit<64> sent = 0;
    bit<64> busy = 0;  // ticks that the link was busy in the window, 16 fraction bits
    bit<32> share = 0;

    action set_timer(bit<16> ports) {
        last_port = ports;
    }

    table timer {
        actions = { set_timer; }
        default_action = set_timer(1);
    }

    action visit(bit<40> ticks_per_byte) { // 24 fraction bits
        bit<64> before;
        tx_bytes.read(sent, (bit<32>) port);
        window_bytes.read(before, (bit<32>) port);
        window_start.read(started, (bit<32>) port);
        elapsed = sm.ingress_global_timestamp - started;
        busy = ((sent - before) * (bit<64>) ticks_per_byte) >> 8;
    }

    table timer_port {
        key = { port: exact; }
        actions = { visit; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    // share = busy / elapsed by long division: v1model has none at run time.
#define DIVIDE_STEP(bit_number) \
        share = busy >= (bit<64>) elapsed << bit_number ? share | (32w1 << bit_number) : share; \
        busy = busy >= (bit<64>) elapsed << bit_number ? busy - ((bit<64>) elapsed << bit_number) : busy;

    action close_window() {
        DIVIDE_STEP(16)
        DIVIDE_STEP(15)
        DIVIDE_STEP(14)
        DIVIDE_STEP(13)
        DIVIDE_STEP(12)
        DIVIDE_STEP(11)
        DIVIDE_STEP(10)
        DIVIDE_STEP(9)
        DIVIDE_STEP(8)
        DIVIDE_STEP(7)
        DIVIDE_STEP(6)
        DIVIDE_STEP(5)
        DIVIDE_STEP(4)
        DIVIDE_STEP(3)
        DIVIDE_STEP(2)
        DIVIDE_STEP(1)
        DIVIDE_STEP(0)
        utilisation.write((bit<32>) port, share > 65536 ? 65536 : share);
        window_bytes.write((bit<32>) port, sent);
        window_start.write((bit<32>) port, sm.ingress_global_timestamp);
    }

    action lap() {
        laps.count(0);
        hdr.timer.laps = hdr.timer.laps + 1;
        port = hdr.timer.port[8:0];
        meta.pfc_port = port;
        xoff_mask.read(meta.pfc_classes, (bit<32>) port);
        sm.egress_spec = TIMER_PORT;
    }

    action next_port() {
        hdr.timer.port = hdr.timer.port >= last_port ? 1 : hdr.timer.port + 1;
    }

    apply {
        timer_generation.read(generation, 0);
        if (hdr.timer.isValid() && hdr.timer.generation == generation) {
            timer.apply();
            lap();
            timer_port.apply();
            if (elapsed != 0) {
                close_window();
            }
            if (meta.pfc_classes != 0) {
                clone_preserving_field_list(CloneType.I2E, PFC_SESSION, KEPT_BY_COPY);
            }
            next_port();
        } else {
            mark_to_drop(sm); // an older timer packet, or the timer was stopped
        }
    }
}

#endif
