// A table of every kind; the frame says which one to ask, the answer is written into it.
#include <core.p4>
#include <v1model.p4>

header key_t {
    bit<8>   op;
    bit<32>  a;
    bit<16>  b;
    bit<128> c;
    bit<3>   d;
    bit<5>   e;
    int<8>   s;
    bit<72>  w;
    bit<32>  result;
    bit<128> wide_result;
    bit<8>   hit;
    bit<8>   colour;
}
struct headers_t { key_t k; }
struct meta_t { bit<16> selector; bit<2> colour; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(h.k); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) colours;
    action_profile(16) profile;
    action_selector(HashAlgorithm.crc16, 32w64, 32w16) selector;

    action answer(bit<32> value) { h.k.result = value; }
    action wide(bit<128> value) { h.k.wide_result = value; }
    action counted(bit<32> value) { hits.count(); h.k.result = value; }
    action metered(bit<32> value) { colours.read(m.colour); h.k.result = value; }

    table exact_t   { key = { h.k.a: exact; h.k.b: exact; } actions = { answer; wide; NoAction; } size = 4096; }
    table wide_t    { key = { h.k.c: exact; h.k.d: exact; } actions = { answer; } size = 64; default_action = answer(9); }
    table lpm_t     { key = { h.k.b: exact; h.k.a: lpm; } actions = { answer; NoAction; } size = 4096; }
    table lpm6_t    { key = { h.k.c: lpm; } actions = { answer; NoAction; } size = 1024; }
    table ternary_t { key = { h.k.a: ternary; h.k.b: ternary; h.k.e: exact; } actions = { answer; NoAction; } size = 1024; }
    table ternary6_t { key = { h.k.c: ternary; h.k.w: ternary; } actions = { answer; NoAction; } size = 1024; }
    table range_t   { key = { h.k.b: range; h.k.a: ternary; h.k.w: range; } actions = { answer; NoAction; } size = 1024; }
    table optional_t { key = { h.k.d: optional; h.k.b: optional; } actions = { answer; NoAction; } size = 1024; }
    table signed_t  { key = { h.k.s: exact; } actions = { answer; } size = 16; default_action = answer(0); }
    table counted_t { key = { h.k.a: exact; } actions = { counted; NoAction; } size = 16; counters = hits; }
    table metered_t { key = { h.k.a: exact; } actions = { metered; NoAction; } size = 16; meters = colours; }
    table profile_t { key = { h.k.a: exact; } actions = { answer; wide; NoAction; } size = 16; implementation = profile; }
    table selector_t {
        key = { h.k.a: exact; m.selector: selector; }
        actions = { answer; NoAction; }
        size = 16;
        implementation = selector;
    }
    table ageing_t  { key = { h.k.a: exact; } actions = { answer; NoAction; } size = 16; support_timeout = true; }
    table const_t {
        key = { h.k.b: ternary; h.k.d: exact; }
        actions = { answer; }
        const entries = {
            (0x0100 &&& 0xff00, 1) : answer(1);
            (0x0102, 1) : answer(2);
            (_, 1) : answer(3);
            (_, 2) : answer(4);
        }
        const default_action = answer(5);
    }
    apply {
        sm.egress_spec = sm.ingress_port;
        m.selector = h.k.b;
        h.k.result = 0;
        bool hit = false;
        if (h.k.op == 0) { hit = exact_t.apply().hit; }
        else if (h.k.op == 1) { hit = wide_t.apply().hit; }
        else if (h.k.op == 2) { hit = lpm_t.apply().hit; }
        else if (h.k.op == 3) { hit = lpm6_t.apply().hit; }
        else if (h.k.op == 4) { hit = ternary_t.apply().hit; }
        else if (h.k.op == 5) { hit = ternary6_t.apply().hit; }
        else if (h.k.op == 6) { hit = range_t.apply().hit; }
        else if (h.k.op == 7) { hit = optional_t.apply().hit; }
        else if (h.k.op == 8) { hit = signed_t.apply().hit; }
        else if (h.k.op == 9) { hit = counted_t.apply().hit; }
        else if (h.k.op == 10) { hit = metered_t.apply().hit; }
        else if (h.k.op == 11) { hit = profile_t.apply().hit; }
        else if (h.k.op == 12) { hit = selector_t.apply().hit; }
        else if (h.k.op == 13) { hit = ageing_t.apply().hit; }
        else if (h.k.op == 14) { hit = const_t.apply().hit; }
        h.k.hit = hit ? 8w1 : 8w0;
        h.k.colour = (bit<8>)m.colour;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.k); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
