/* Admission: which class a packet has here and whether there is room for it.
 *
 * A lossless class is admitted by what its ingress port holds (XOFF + headroom), a lossy one by the length of its egress
 * queue. What is admitted is counted, gets the next ticket of its queue, and pauses its upstream on crossing XOFF. */
#ifndef XOFF_ADMISSION
#define XOFF_ADMISSION

control Admission(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set_class(class_t new_class) {
        meta.out_class = new_class;
    }

    // Change of class at a link (a dateline, a Tagger rule): the packet queues here and travels on in the new class,
    // while its upstream goes on being paused in the class it used.
    table class_map {
        key = {
            meta.in_port: exact @name("ingress_port");
            meta.out_port: exact @name("egress_port");
            meta.in_class: exact @name("class");
        }
        actions = { set_class; @defaultonly NoAction; }
        const default_action = NoAction();
        size = QUEUES;
    }

    action set_ingress_class(bit<1> lossless, bit<32> xoff, bit<32> xon, bit<32> limit) {
        meta.in_lossless = lossless;
        meta.xoff_bytes = xoff;
        meta.xon_bytes = xon;
        meta.held_limit = limit;
    }

    table ingress_class {
        key = {
            meta.in_port: exact @name("port");
            meta.in_class: exact @name("class");
        }
        actions = { set_ingress_class; }
        default_action = set_ingress_class(0, 0, 0, 0);
        size = QUEUES;
    }

    action set_egress_class(bit<1> lossless, bit<32> limit) {
        meta.out_lossless = lossless;
        meta.queue_limit = limit;
    }

    table egress_class {
        key = {
            meta.out_port: exact @name("port");
            meta.out_class: exact @name("class");
        }
        actions = { set_egress_class; }
        default_action = set_egress_class(0, 1 << 20);
        size = QUEUES;
    }

    action read_levels() {
        held_bytes.read(meta.held_bytes, (bit<32>) (meta.in_port ++ meta.in_class));
        queue_bytes.read(meta.queue_bytes, (bit<32>) (meta.out_port ++ meta.out_class));
    }

    action admit() {
        bit<32> ingress_index = (bit<32>) (meta.in_port ++ meta.in_class);
        bit<32> egress_index = (bit<32>) (meta.out_port ++ meta.out_class);
        bit<32> held;
        held_bytes.read(held, ingress_index);
        held = held + meta.length;
        held_bytes.write(ingress_index, held);
        bit<32> queued;
        queue_bytes.read(queued, egress_index);
        queue_bytes.write(egress_index, queued + meta.length);
        bit<32> at_port;
        port_bytes.read(at_port, (bit<32>) meta.out_port);
        port_bytes.write((bit<32>) meta.out_port, at_port + meta.length);
        ticket_tail.read(meta.ticket, egress_index);
        ticket_tail.write(egress_index, meta.ticket + 1);
        bit<8> mask;
        xoff_mask.read(mask, (bit<32>) meta.in_port);
        bit<8> crossed = meta.in_lossless == 1 && held > meta.xoff_bytes ? (8w1 << meta.in_class) & ~mask : 0;
        xoff_mask.write((bit<32>) meta.in_port, mask | crossed);
        meta.pfc_classes = crossed;
        meta.pfc_port = meta.in_port;
        meta.admitted = 1;
        sm.egress_spec = meta.out_port;
        sm.priority = meta.out_class;
    }

    action next_in_sample() {
        bit<16> count;
        int_count.read(count, (bit<32>) meta.in_port);
        count = count + 1;
        meta.sampled = count >= meta.int_every ? 1w1 : 0;
        int_count.write((bit<32>) meta.in_port, count >= meta.int_every ? 0 : count);
    }

    apply {
        meta.out_class = meta.in_class;
        class_map.apply();
        ingress_class.apply();
        egress_class.apply();
        read_levels();
        if (meta.in_lossless == 1 && meta.held_bytes + meta.length > meta.held_limit) {
            meta.drop_reason = DROP_HEADROOM;
            headroom_drops.count((bit<32>) (meta.in_port ++ meta.in_class));
        } else if ((meta.in_lossless == 0 || meta.out_lossless == 0)
                   && meta.queue_bytes + meta.length > meta.queue_limit) {
            meta.drop_reason = DROP_QUEUE;
            queue_drops.count((bit<32>) (meta.out_port ++ meta.out_class));
        } else {
            admit();
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                hdr.ipv4.dscp[5:3] = meta.out_class;
            } else {
                hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                hdr.ipv6.dscp[5:3] = meta.out_class;
            }
            if (meta.int_every != 0 && hdr.bth.isValid() && !hdr.aeth.isValid() && !hdr.cnp.isValid()
                && !hdr.int_shim.isValid() && hdr.udp.checksum == 0) {
                next_in_sample();
            }
            if (meta.pfc_classes != 0) {
                clone_preserving_field_list(CloneType.I2E, PFC_SESSION, KEPT_BY_COPY);
            }
        }
    }
}

#endif
