/* Parser, checksums and deparser. A frame that stops short or contradicts itself is left to `Screen`, which counts it. */
#ifndef XOFF_PARSER
#define XOFF_PARSER

error {
    BadIpHeader,
    BadTelemetry
}

parser FabricParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_VLAN: vlan;
            ETHERTYPE_MAC_CONTROL: mac_control;
            ETHERTYPE_TIMER: timer;
            default: accept;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state mac_control {
        packet.extract(hdr.mac_control);
        transition select(hdr.mac_control.opcode) {
            MAC_CONTROL_PFC: pfc;
            default: accept;
        }
    }

    state pfc {
        packet.extract(hdr.pfc);
        transition accept;
    }

    state timer {
        packet.extract(hdr.timer);
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5, error.BadIpHeader);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): udp;
            (5, 0, PROTOCOL_TCP): tcp;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.BadIpHeader);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: udp;
            PROTOCOL_TCP: tcp;
            default: accept;
        }
    }

    state tcp {
        bit<32> ports = packet.lookahead<bit<32>>();
        meta.sport = ports[31:16];
        meta.dport = ports[15:0];
        transition accept;
    }

    state udp {
        packet.extract(hdr.udp);
        meta.sport = hdr.udp.sport;
        meta.dport = hdr.udp.dport;
        transition select(hdr.udp.dport) {
            ROCE_UDP_PORT: bth;
            INT_UDP_PORT: int_shim;
            default: accept;
        }
    }

    state int_shim {
        packet.extract(hdr.int_shim);
        meta.dport = hdr.int_shim.original_dport;
        // Type 1 is INT-MD; next protocol type 1 says that the shim holds the original port.
        verify(hdr.int_shim.type == 1 && hdr.int_shim.npt == 1 && hdr.int_shim.length >= 3, error.BadTelemetry);
        packet.extract(hdr.int_md);
        packet.extract(hdr.int_stack, ((bit<32>) hdr.int_shim.length - 3) << 5);
        transition select(hdr.int_shim.original_dport) {
            ROCE_UDP_PORT: bth;
            default: accept;
        }
    }

    state bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            OPCODE_ACKNOWLEDGE: aeth;
            OPCODE_CNP: cnp;
            default: accept;
        }
    }

    state aeth {
        packet.extract(hdr.aeth);
        transition accept;
    }

    state cnp {
        packet.extract(hdr.cnp);
        transition accept;
    }
}

control FabricVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FabricComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.mac_control);
        packet.emit(hdr.pfc);
        packet.emit(hdr.pfc_padding);
        packet.emit(hdr.timer);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.int_shim);
        packet.emit(hdr.int_md);
        packet.emit(hdr.int_node);
        packet.emit(hdr.int_ports);
        packet.emit(hdr.int_latency);
        packet.emit(hdr.int_queue);
        packet.emit(hdr.int_arrival);
        packet.emit(hdr.int_departure);
        packet.emit(hdr.int_level2);
        packet.emit(hdr.int_utilisation);
        packet.emit(hdr.int_buffer);
        packet.emit(hdr.int_tx_bytes);
        packet.emit(hdr.int_rate);
        packet.emit(hdr.int_stack);
        packet.emit(hdr.bth);
        packet.emit(hdr.aeth);
        packet.emit(hdr.cnp);
    }
}

#endif
