// Hashes with parameters that are set at run time, over nine bytes.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<72> text; bit<16> short; bit<32> long; }
struct headers_t { data_t data; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.data); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hash(hdr.data.short, HashAlgorithm.crc16_custom, (bit<16>) 0, { hdr.data.text }, (bit<32>) 65536);
        hash(hdr.data.long, HashAlgorithm.crc32_custom, (bit<32>) 0, { hdr.data.text }, (bit<64>) 4294967296);
        standard.egress_spec = 2;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.data); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
