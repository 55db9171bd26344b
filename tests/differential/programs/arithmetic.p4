/* Operators at widths below, at and beyond machine words, signed and saturating, with slices and casts. */
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8> op; bit<8> shift; bit<8> a; bit<8> b; bit<33> c; bit<31> d; bit<64> e; bit<64> f;
    bit<128> g; bit<128> h; bit<200> i; int<8> s; int<8> t; int<72> u; int<72> v; bit<8> flags;
}
struct headers_t { operands_t o; }
struct meta_t { }

parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.o); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.o.op == 0) {
            hdr.o.a = hdr.o.a + hdr.o.b; hdr.o.c = hdr.o.c * 33w3; hdr.o.e = hdr.o.e - hdr.o.f;
            hdr.o.g = hdr.o.g * hdr.o.h; hdr.o.s = hdr.o.s + hdr.o.t; hdr.o.u = hdr.o.u * hdr.o.v;
        } else if (hdr.o.op == 1) {
            hdr.o.a = hdr.o.a |+| hdr.o.b; hdr.o.e = hdr.o.e |-| hdr.o.f; hdr.o.g = hdr.o.g |+| hdr.o.h;
            hdr.o.s = hdr.o.s |-| hdr.o.t; hdr.o.u = hdr.o.u |+| hdr.o.v; hdr.o.c = hdr.o.c |+| 33w1;
        } else if (hdr.o.op == 2) {
            hdr.o.a = hdr.o.a << hdr.o.shift; hdr.o.c = hdr.o.c >> hdr.o.shift; hdr.o.g = hdr.o.g << hdr.o.shift;
            hdr.o.i = hdr.o.i >> hdr.o.shift; hdr.o.s = hdr.o.s >> hdr.o.shift; hdr.o.u = hdr.o.u >> hdr.o.shift;
            hdr.o.v = hdr.o.v << hdr.o.shift; hdr.o.e = hdr.o.e << hdr.o.shift;
        } else if (hdr.o.op == 5) {
            hdr.o.flags[0:0] = (bit<1>) (hdr.o.a < hdr.o.b); hdr.o.flags[1:1] = (bit<1>) (hdr.o.s < hdr.o.t);
            hdr.o.flags[2:2] = (bit<1>) (hdr.o.g >= hdr.o.h); hdr.o.flags[3:3] = (bit<1>) (hdr.o.u <= hdr.o.v);
            hdr.o.flags[4:4] = (bit<1>) (hdr.o.e == hdr.o.f); hdr.o.flags[5:5] = (bit<1>) (hdr.o.u != hdr.o.v);
            hdr.o.flags[6:6] = (bit<1>) (hdr.o.i > 200w5); hdr.o.flags[7:7] = (bit<1>) (hdr.o.c > hdr.o.g[40:8]);
        } else if (hdr.o.op == 255) {
            hdr.o.i = hdr.o.g[99:0] ++ hdr.o.h[127:28]; hdr.o.e[40:3] = hdr.o.i[150:113]; hdr.o.a = (bit<8>) hdr.o.s;
            hdr.o.g[127:64] = hdr.o.f; hdr.o.d = hdr.o.c[32:2]; hdr.o.u = (int<72>) hdr.o.s; hdr.o.i[7:0] = hdr.o.a;
        } else {
            hdr.o.a = ~hdr.o.a; hdr.o.c = -hdr.o.c; hdr.o.g = hdr.o.g ^ hdr.o.h; hdr.o.i = ~hdr.o.i;
            hdr.o.u = -hdr.o.u; hdr.o.s = -hdr.o.s; hdr.o.e = hdr.o.e & ~hdr.o.f; hdr.o.h = hdr.o.h | hdr.o.g;
        }
    }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.o); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
