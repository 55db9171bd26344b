/* Counters and meters of every kind, by index (also beyond the end) and by entry. */
#include <core.p4>
#include <v1model.p4>

header mark_t { bit<8> index; bit<8> key; bit<2> by_bytes; bit<2> by_packets; bit<2> direct; bit<2> pad; bit<8> last; }
struct headers_t { mark_t k; }
struct meta_t { bit<2> colour; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.k); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(16, CounterType.packets) packets;
    counter(16, CounterType.bytes) octets;
    counter(16, CounterType.packets_and_bytes) both;
    meter(16, MeterType.bytes) byte_meter;
    meter(16, MeterType.packets) packet_meter;
    direct_counter(CounterType.packets_and_bytes) entry_counter;
    direct_meter<bit<2>>(MeterType.packets) entry_meter;
    register<bit<8>>(16) last_key;
    action mark(bit<8> value) { entry_counter.count(); entry_meter.read(m.colour); h.k.last = value; }
    action pass() { entry_counter.count(); entry_meter.read(m.colour); }
    table counted {
        key = { h.k.key: ternary; }
        actions = { mark; pass; }
        counters = entry_counter;
        meters = entry_meter;
        default_action = pass();
    }
    apply {
        s.egress_spec = 1;
        bit<32> i = (bit<32>) h.k.index;
        packets.count(i);
        octets.count(i);
        both.count(i);
        byte_meter.execute_meter(i, h.k.by_bytes);
        packet_meter.execute_meter(i, h.k.by_packets);
        counted.apply();
        h.k.direct = m.colour;
        bit<8> before;
        last_key.read(before, i);
        last_key.write(i, h.k.key + before);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.k); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
