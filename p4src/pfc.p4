/* Priority-based flow control, IEEE 802.1Qbb: frames received and frames sent.
 *
 * Sent frames are level-triggered: a copy only says which classes of a port to speak about; what the frame says (pause or
 * resume) is read from `xoff_mask` at the moment it leaves. Every change of a mask bit makes a copy after the change,
 * and one port's frames leave in one order, so the last frame out always tells the last state, whatever the
 * interleaving of ingress and egress. Copies lose their priority, so they pass through LOOP_PORT and ingress once to be
 * queued in class 7. */
#ifndef XOFF_PFC
#define XOFF_PFC

control PfcReceive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action count_class(in class_t cls, in bit<16> quanta) {
        pfc_rx.count((bit<32>) (meta.in_port ++ cls ++ (quanta == 0 ? 1w1 : 1w0)));
    }

    // The controller rounds ticks per quantum down, this rounds up: a pause never ends early, and one of a whole number
    // of ticks is exact.
    action pause_queue(in class_t cls, in bit<16> quanta) {
        bit<32> index = (bit<32>) (meta.in_port ++ cls);
        bit<64> ticks = ((bit<64>) quanta * (bit<64>) meta.pause_ticks + 0xffffff) >> 24;
        pause_until.write(index, quanta == 0 ? 0 : sm.ingress_global_timestamp + ticks[47:0]);
        bit<16> epoch;
        pause_epoch.read(epoch, index);
        pause_epoch.write(index, epoch + 1);
    }

#define RECEIVE_CLASS(cls, quanta) \
    if (hdr.pfc.enable[cls:cls] == 1) { \
        count_class(cls, quanta); \
        if (meta.pfc_mask[cls:cls] == 1) { \
            pause_queue(cls, quanta); \
        } \
    }

    apply {
        RECEIVE_CLASS(0, hdr.pfc.time0)
        RECEIVE_CLASS(1, hdr.pfc.time1)
        RECEIVE_CLASS(2, hdr.pfc.time2)
        RECEIVE_CLASS(3, hdr.pfc.time3)
        RECEIVE_CLASS(4, hdr.pfc.time4)
        RECEIVE_CLASS(5, hdr.pfc.time5)
        RECEIVE_CLASS(6, hdr.pfc.time6)
        RECEIVE_CLASS(7, hdr.pfc.time7)
        if ((hdr.pfc.enable & ~meta.pfc_mask) != 0) {
            pfc_ignored.count((bit<32>) meta.in_port);
        }
        mark_to_drop(sm); // consumed, not a loss
    }
}

control PfcSend(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<8> mask = 0;

    action set_pause_frame(mac_t mac, bit<16> quanta0, bit<16> quanta1, bit<16> quanta2, bit<16> quanta3,
                           bit<16> quanta4, bit<16> quanta5, bit<16> quanta6, bit<16> quanta7) {
        xoff_mask.read(mask, (bit<32>) sm.egress_port);
        mask = mask & meta.pfc_classes;
        hdr.ethernet.setValid();
        hdr.ethernet.dst = PFC_ADDRESS;
        hdr.ethernet.src = mac;
        hdr.ethernet.ethertype = ETHERTYPE_MAC_CONTROL;
        hdr.mac_control.setValid();
        hdr.mac_control.opcode = MAC_CONTROL_PFC;
        hdr.pfc.setValid();
        hdr.pfc.reserved = 0;
        hdr.pfc.enable = meta.pfc_classes;
        hdr.pfc.time0 = mask[0:0] == 1 ? quanta0 : 0;
        hdr.pfc.time1 = mask[1:1] == 1 ? quanta1 : 0;
        hdr.pfc.time2 = mask[2:2] == 1 ? quanta2 : 0;
        hdr.pfc.time3 = mask[3:3] == 1 ? quanta3 : 0;
        hdr.pfc.time4 = mask[4:4] == 1 ? quanta4 : 0;
        hdr.pfc.time5 = mask[5:5] == 1 ? quanta5 : 0;
        hdr.pfc.time6 = mask[6:6] == 1 ? quanta6 : 0;
        hdr.pfc.time7 = mask[7:7] == 1 ? quanta7 : 0;
        hdr.pfc_padding.setValid();
        hdr.pfc_padding.zero = 0;
        hdr.vlan.setInvalid();
        hdr.timer.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.udp.setInvalid();
        hdr.int_shim.setInvalid();
        hdr.int_md.setInvalid();
        hdr.int_stack.setInvalid();
        hdr.bth.setInvalid();
        hdr.aeth.setInvalid();
        hdr.cnp.setInvalid();
        meta.wire_length = 60;
        meta.out_class = PFC_CLASS;
        truncate(60);
    }

    action discard() {
        meta.drop_reason = DROP_PORT;
    }

    table pause_frame {
        key = { sm.egress_port: exact @name("port"); }
        actions = { set_pause_frame; @defaultonly discard; }
        const default_action = discard();
        size = PORTS;
    }

    action count_class(in class_t cls, in bit<1> xon) {
        pfc_tx.count((bit<32>) (sm.egress_port ++ cls ++ xon));
    }

#define COUNT_SENT(cls) \
    if (hdr.pfc.enable[cls:cls] == 1) { \
        count_class(cls, ~mask[cls:cls]); \
    }

    apply {
        if (pause_frame.apply().hit) {
            COUNT_SENT(0)
            COUNT_SENT(1)
            COUNT_SENT(2)
            COUNT_SENT(3)
            COUNT_SENT(4)
            COUNT_SENT(5)
            COUNT_SENT(6)
            COUNT_SENT(7)
        }
    }
}

#endif
