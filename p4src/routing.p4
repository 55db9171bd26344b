/* Routing: longest prefix to a port or a group of equal ports, and the choice within the group.
 *
 * The choice starts from a CRC of the 5-tuple. CRC is linear: a seed inside it moves all flows alike, so two tiers that
 * hash with different seeds still choose together (polarisation). The seed therefore enters a multiply-xorshift
 * finaliser after the CRC, whose outputs under different seeds are independent for this purpose. */
#ifndef XOFF_ROUTING
#define XOFF_ROUTING

control Routing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action to_port(port_t port) {
        meta.out_port = port;
    }

    action to_group(bit<16> group) {
        meta.group = group;
    }

    action no_route() {
        meta.drop_reason = DROP_NO_ROUTE;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { to_port; to_group; no_route; }
        const default_action = no_route();
        size = 16384;
    }

    table ipv6_lpm {
        key = { hdr.ipv6.dst: lpm @name("dst"); }
        actions = { to_port; to_group; no_route; }
        const default_action = no_route();
        size = 16384;
    }

    action set_load_balancing(bit<2> mode, bit<32> seed) {
        meta.balance = mode;
        meta.hash_seed = seed;
    }

    table load_balancing {
        actions = { set_load_balancing; }
        default_action = set_load_balancing(BALANCE_ECMP, 0);
    }

    action mix() {
        bit<32> h = meta.hash ^ meta.hash_seed;
        h = h ^ (h >> 16);
        h = h * 0x85ebca6b;
        h = h ^ (h >> 13);
        h = h * 0xc2b2ae35;
        h = h ^ (h >> 16);
        meta.hash = h;
        meta.path_hash = h[15:0];
    }

    // Every flow takes its candidates in turn, beginning at one that its hash names: no link gets more of it than
    // another, which choosing at random would not give, and flows that alternate do not lock to alternate ports.
    action next_in_spray() {
        bit<16> count;
        spray_count.read(count, (bit<32>) meta.hash[29:16]);
        spray_count.write((bit<32>) meta.hash[29:16], count + 1);
        meta.path_hash = meta.path_hash + count;
    }

    action_selector(HashAlgorithm.identity, 4096, 16) paths;

    table next_hop_group {
        key = {
            meta.group: exact @name("group");
            meta.path_hash: selector;
        }
        actions = { to_port; }
        implementation = paths;
        size = 1024;
    }

    // The port with the fewest bytes queued. Equals are told apart by 8 bits of the hash each, so that a flow keeps its
    // port while loads are equal and flows spread.
    action least_loaded(port_t port0, port_t port1, port_t port2, port_t port3,
                        port_t port4, port_t port5, port_t port6, port_t port7, bit<8> valid) {
        bit<32> bytes0; bit<32> bytes1; bit<32> bytes2; bit<32> bytes3;
        bit<32> bytes4; bit<32> bytes5; bit<32> bytes6; bit<32> bytes7;
        port_bytes.read(bytes0, (bit<32>) port0);
        port_bytes.read(bytes1, (bit<32>) port1);
        port_bytes.read(bytes2, (bit<32>) port2);
        port_bytes.read(bytes3, (bit<32>) port3);
        port_bytes.read(bytes4, (bit<32>) port4);
        port_bytes.read(bytes5, (bit<32>) port5);
        port_bytes.read(bytes6, (bit<32>) port6);
        port_bytes.read(bytes7, (bit<32>) port7);
        bit<32> other = (meta.hash ^ (meta.hash >> 15)) * 0x2c1b3c6d;
        bit<40> load0 = bytes0 ++ meta.hash[7:0];
        bit<40> load1 = valid[1:1] == 1 ? bytes1 ++ meta.hash[15:8] : 40w0xffffffffff;
        bit<40> load2 = valid[2:2] == 1 ? bytes2 ++ meta.hash[23:16] : 40w0xffffffffff;
        bit<40> load3 = valid[3:3] == 1 ? bytes3 ++ meta.hash[31:24] : 40w0xffffffffff;
        bit<40> load4 = valid[4:4] == 1 ? bytes4 ++ other[7:0] : 40w0xffffffffff;
        bit<40> load5 = valid[5:5] == 1 ? bytes5 ++ other[15:8] : 40w0xffffffffff;
        bit<40> load6 = valid[6:6] == 1 ? bytes6 ++ other[23:16] : 40w0xffffffffff;
        bit<40> load7 = valid[7:7] == 1 ? bytes7 ++ other[31:24] : 40w0xffffffffff;
        port_t best = port0;
        bit<40> least = load0;
        best = load1 < least ? port1 : best;
        least = load1 < least ? load1 : least;
        best = load2 < least ? port2 : best;
        least = load2 < least ? load2 : least;
        best = load3 < least ? port3 : best;
        least = load3 < least ? load3 : least;
        best = load4 < least ? port4 : best;
        least = load4 < least ? load4 : least;
        best = load5 < least ? port5 : best;
        least = load5 < least ? load5 : least;
        best = load6 < least ? port6 : best;
        least = load6 < least ? load6 : least;
        best = load7 < least ? port7 : best;
        meta.out_port = best;
    }

    table adaptive_group {
        key = { meta.group: exact @name("group"); }
        actions = { least_loaded; @defaultonly no_route; }
        const default_action = no_route();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ipv4_lpm.apply();
        } else {
            ipv6_lpm.apply();
        }
        if (meta.group != 0) {
            load_balancing.apply();
            if (hdr.ipv4.isValid()) {
                hash(meta.hash, HashAlgorithm.crc32, 32w0,
                     { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.sport, meta.dport }, 64w0x100000000);
            } else {
                hash(meta.hash, HashAlgorithm.crc32, 32w0,
                     { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, meta.sport, meta.dport }, 64w0x100000000);
            }
            mix();
            if (meta.balance == BALANCE_SPRAY) {
                next_in_spray();
            }
            if (meta.balance == BALANCE_ADAPTIVE) {
                adaptive_group.apply();
            } else {
                next_hop_group.apply();
            }
        }
        if (meta.drop_reason == DROP_NONE && meta.out_port == 0) {
            no_route(); // the group has no member
        }
    }
}

#endif
