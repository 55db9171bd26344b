/* ECN: RED on the bytes left in the egress queue, evaluated when the packet leaves it.
 *
 * Above Kmax always, between Kmin and Kmax with probability Pmax (q - Kmin) / (Kmax - Kmin), else never
 * (`ShouldSendCN` of HPCC's simulator, switch-mmu.cc). `slope` is Pmax 2^40 / (Kmax - Kmin), so that
 * ((q - Kmin) slope) >> 8 is the probability in units of 2^-32. */
#ifndef XOFF_ECN
#define XOFF_ECN

control Ecn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<1> enabled = 0;
    bit<32> over_kmin = 0;
    bit<32> span = 0;
    bit<64> probability = 0;
    bit<32> dice = 0;

    action set_red(bit<32> kmin, bit<32> kmax, bit<48> slope) {
        enabled = 1;
        over_kmin = meta.queue_bytes |-| kmin;
        span = kmax - kmin;
        probability = ((bit<64>) over_kmin * (bit<64>) slope) >> 8;
    }

    table red {
        key = {
            meta.out_port: exact @name("port");
            meta.out_class: exact @name("class");
        }
        actions = { set_red; @defaultonly NoAction; }
        const default_action = NoAction();
        size = QUEUES;
    }

    apply {
        red.apply();
        if (enabled == 1 && over_kmin != 0) {
            random(dice, 32w0, 32w0xffffffff);
            if (over_kmin > span || (bit<64>) dice < probability) {
                if (hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_CAPABLE && hdr.ipv4.ecn != ECN_CONGESTION) {
                    hdr.ipv4.ecn = ECN_CONGESTION;
                    ecn_marked.count((bit<32>) (meta.out_port ++ meta.out_class));
                } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_CAPABLE && hdr.ipv6.ecn != ECN_CONGESTION) {
                    hdr.ipv6.ecn = ECN_CONGESTION;
                    ecn_marked.count((bit<32>) (meta.out_port ++ meta.out_class));
                }
            }
        }
    }
}

#endif
