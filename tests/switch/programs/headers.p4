// Stacks, unions, varbits and run-time indices: what a hostile frame could push out of bounds.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> index; bit<8> count; }
header item_t { bit<8> next; bit<24> value; }
header options_t { bit<8> length; varbit<320> data; }
header one_t { bit<16> a; }
header two_t { bit<32> a; bit<8> b; }
header_union either_t { one_t one; two_t two; }
header big_t { bit<256> x; bit<7> y; bit<65> z; }

struct headers_t {
    kind_t kind;
    item_t[4] items;
    options_t options;
    either_t either;
    either_t[3] many;
    big_t big;
}
struct meta_t { bit<32> total; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.kind);
        transition select(h.kind.kind[2:0]) {
            0: items;
            1: options;
            2: one;
            3: two;
            4: many;
            5: look;
            6: skip;
            default: big;
        }
    }
    state items {
        p.extract(h.items.next);
        transition select(h.items.last.next) {
            0: accept;
            1 .. 9: options;
            default: items;
        }
    }
    state options {
        bit<8> length = p.lookahead<bit<8>>();
        p.extract(h.options, (bit<32>)length * 8);
        transition accept;
    }
    state one { p.extract(h.either.one); transition big; }
    state two { p.extract(h.either.two); transition accept; }
    state many {
        bit<8> next = p.lookahead<bit<8>>();
        transition select(next[1:0]) {
            0: many_one;
            1: many_two;
            default: accept;
        }
    }
    state many_one { p.extract(h.many.next.one); transition many; }
    state many_two { p.extract(h.many.next.two); transition many; }
    state look {
        bit<256> wide = p.lookahead<bit<256>>();
        m.total = wide[31:0];
        transition accept;
    }
    state skip { p.advance((bit<32>)h.kind.index << 3); transition items; }
    state big { p.extract(h.big); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = (bit<9>)h.kind.count & 7;
        bit<32> i = (bit<32>)h.kind.index;
        h.items[i].value = h.items[i + 1].value + 1;
        if (h.kind.count == 1) { h.items.push_front(1); }
        else if (h.kind.count == 2) { h.items.push_front(3); h.items[0].setValid(); }
        else if (h.kind.count == 3) { h.items.pop_front(2); }
        else if (h.kind.count == 4) { h.items.push_front(9); }
        else if (h.kind.count == 5) { h.either.one.setValid(); h.either.one.a = 5; }
        else if (h.kind.count == 6) { h.either.two.setValid(); }
        else if (h.kind.count == 7) { h.many[2].one.setValid(); h.many[i].two.a = 7; }
        else if (h.kind.count == 8) { h.big.setValid(); h.big.x = h.big.x << h.kind.index; h.big.z = h.big.z * 3; }
        else if (h.kind.count == 9) { h.options.setInvalid(); }
        else if (h.kind.count == 10) { truncate((bit<32>)h.kind.index); }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum_with_payload(h.items[0].isValid(), { h.options.data, h.items[1], h.big.y, m.total }, h.either.one.a,
            HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.kind); p.emit(h.items); p.emit(h.options); p.emit(h.either); p.emit(h.many); p.emit(h.big); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
