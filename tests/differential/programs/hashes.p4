/* Every hash algorithm of v1model over fields of odd widths, with base and maximum from the packet. */
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8>   algorithm;
    bit<16>  base;
    bit<32>  limit;
    bit<7>   odd;
    bit<1>   flag;
    bit<48>  a;
    bit<13>  b;
    bit<3>   c;
    bit<128> wide;
    bit<32>  result;
    bit<64>  long_result;
}
struct headers_t { request_t r; }
struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.r); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        bit<64> limit = (bit<64>) h.r.limit;
        if (h.r.algorithm == 0) {
            hash(h.r.result, HashAlgorithm.crc32, h.r.base, { h.r.odd, h.r.a, h.r.b, h.r.wide }, limit);
            hash(h.r.long_result, HashAlgorithm.crc32, 64w0, { h.r.a }, 64w0xffffffff);
        } else if (h.r.algorithm == 1) {
            hash(h.r.result, HashAlgorithm.crc16, h.r.base, { h.r.odd, h.r.a, h.r.b, h.r.wide }, limit);
            hash(h.r.long_result, HashAlgorithm.crc16, 64w0, { h.r.b, h.r.c }, 64w65536);
        } else if (h.r.algorithm == 2) {
            hash(h.r.result, HashAlgorithm.csum16, h.r.base, { h.r.odd, h.r.flag, h.r.a, h.r.wide }, limit);
            hash(h.r.long_result, HashAlgorithm.csum16, 64w7, { h.r.b }, 64w65536);
        } else if (h.r.algorithm == 5) {
            hash(h.r.result, HashAlgorithm.xor16, h.r.base, { h.r.odd, h.r.flag, h.r.a, h.r.wide }, limit);
            hash(h.r.long_result, HashAlgorithm.xor16, 64w7, { h.r.b, h.r.c, h.r.odd }, 64w65536);
        } else if (h.r.algorithm == 255) {
            hash(h.r.result, HashAlgorithm.identity, h.r.base, { h.r.b, h.r.c, h.r.odd }, limit);
            hash(h.r.long_result, HashAlgorithm.identity, 64w0, { h.r.wide }, 64w0xffffffffffff);
        } else {
            hash(h.r.result, HashAlgorithm.crc32_custom, h.r.base, { h.r.odd, h.r.a, h.r.wide }, limit);
            hash(h.r.long_result, HashAlgorithm.crc16_custom, 64w1, { h.r.a, h.r.flag }, limit);
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.r); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
