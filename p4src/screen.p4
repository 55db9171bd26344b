/* Screen: which frames a switch looks at at all. Everything it refuses is counted by ingress port and reason. */
#ifndef XOFF_SCREEN
#define XOFF_SCREEN

control Screen(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set_ingress_port(mac_t mac, bit<48> pause_ticks, bit<8> pfc_mask, bit<16> int_every) {
        meta.port_mac = mac;
        meta.pause_ticks = pause_ticks;
        meta.pfc_mask = pfc_mask;
        meta.int_every = int_every;
    }

    action unknown_port() {
        meta.drop_reason = DROP_PORT;
    }

    table ingress_port {
        key = { sm.ingress_port: exact @name("port"); }
        actions = { set_ingress_port; @defaultonly unknown_port; }
        const default_action = unknown_port();
        size = PORTS;
    }

    action refuse(bit<5> reason) {
        meta.drop_reason = reason;
    }

    // Bytes that the frame must have for its IP length to be true; an Ethernet trailer may make it longer.
    action measure_ipv4() {
        meta.wire_length = (bit<32>) hdr.ipv4.total_length + (hdr.vlan.isValid() ? 32w18 : 32w14);
    }

    action measure_ipv6() {
        meta.wire_length = (bit<32>) hdr.ipv6.payload_length + (hdr.vlan.isValid() ? 32w58 : 32w54);
    }

    apply {
        ingress_port.apply();
        if (meta.drop_reason == DROP_NONE) {
            if (sm.parser_error != error.NoError) {
                if (sm.parser_error == error.PacketTooShort) {
                    refuse(DROP_TOO_SHORT);
                } else {
                    refuse(DROP_MALFORMED);
                }
            } else if (hdr.mac_control.isValid()) {
                if (!hdr.pfc.isValid() || (hdr.ethernet.dst != PFC_ADDRESS && hdr.ethernet.dst != meta.port_mac)) {
                    refuse(DROP_MAC_CONTROL);
                }
            } else if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) {
                refuse(DROP_NOT_IP);
            } else if (hdr.ethernet.dst != meta.port_mac) {
                refuse(DROP_L2_DESTINATION);
            } else if (hdr.ipv4.isValid() && hdr.ipv4.ihl != 5) {
                refuse(DROP_IP_OPTIONS);
            } else if (sm.checksum_error == 1) {
                refuse(DROP_IP_CHECKSUM);
            } else {
                if (hdr.ipv4.isValid()) {
                    measure_ipv4();
                } else {
                    measure_ipv6();
                }
                if (meta.wire_length > sm.packet_length || (hdr.ipv4.isValid() && hdr.ipv4.total_length < 20)) {
                    refuse(DROP_MALFORMED);
                } else if (hdr.int_shim.isValid()
                           && (hdr.udp.length < 12 || ((hdr.udp.length - 12) >> 2) < (bit<16>) hdr.int_shim.length)) {
                    refuse(DROP_MALFORMED);
                } else if ((hdr.ipv4.isValid() && hdr.ipv4.ttl < 2) || (hdr.ipv6.isValid() && hdr.ipv6.hop_limit < 2)) {
                    refuse(DROP_TTL);
                }
            }
        }
    }
}

#endif
