// The permutation of benchmarks/virtual_time.py on Debian's ns-3: a fat-tree of point-to-point links, one UDP flow a host.
//
// Hosts send packets of the path MTU at line rate and never slow down; switches forward by shortest path (Nix vectors) from
// drop-tail queues. No P4, no RoCE, no PFC: it is what ns-3 does least for a packet. Prints one line of JSON.
#include <ctime>
#include <iostream>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

static uint64_t g_traversals;
static void Received(Ptr<const Packet>) { g_traversals++; }

int main(int argc, char **argv) {
    uint32_t k = 8, bytes = 4 << 20, mtu = 4096;
    CommandLine command;
    command.AddValue("k", "ports of a switch", k);
    command.AddValue("bytes", "bytes that a host sends", bytes);
    command.AddValue("mtu", "payload of a packet", mtu);
    command.Parse(argc, argv);

    const uint32_t half = k / 2, hosts = k * half * half;
    NodeContainer host, edge, aggregation, core;
    host.Create(hosts);
    edge.Create(k * half);
    aggregation.Create(k * half);
    core.Create(half * half);
    InternetStackHelper stack;
    stack.SetRoutingHelper(Ipv4NixVectorHelper());
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
    link.SetDeviceAttribute("Mtu", UintegerValue(9000));
    link.SetChannelAttribute("Delay", StringValue("1us"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> address(hosts);
    auto join = [&](Ptr<Node> a, Ptr<Node> b) {
        auto devices = link.Install(a, b);
        auto interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        for (uint32_t i = 0; i < 2; i++) devices.Get(i)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&Received));
        return interfaces.GetAddress(0);
    };
    for (uint32_t i = 0; i < hosts; i++) address[i] = join(host.Get(i), edge.Get(i / half));
    for (uint32_t pod = 0; pod < k; pod++)
        for (uint32_t a = 0; a < half; a++)
            for (uint32_t b = 0; b < half; b++) {
                join(edge.Get(pod * half + a), aggregation.Get(pod * half + b));
                join(aggregation.Get(pod * half + a), core.Get(a * half + b));
            }

    // A shift by a little more than a pod: nearly every flow crosses the core.
    const double packet_seconds = (mtu + 30) * 8 / 100e9;
    for (uint32_t i = 0; i < hosts; i++) {
        uint32_t to = (i + half * half + 1) % hosts;
        PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sink.Install(host.Get(to));
        UdpClientHelper client(address[to], 9);
        client.SetAttribute("MaxPackets", UintegerValue(bytes / mtu));
        client.SetAttribute("PacketSize", UintegerValue(mtu));
        client.SetAttribute("Interval", TimeValue(Seconds(packet_seconds)));
        client.Install(host.Get(i));
    }
    clock_t begin = clock();
    Simulator::Run();
    double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
    std::cout << "{\"k\": " << k << ", \"traversals\": " << g_traversals << ", \"cpu_seconds\": " << seconds
              << ", \"traversals_per_cpu_second\": " << uint64_t(g_traversals / seconds) << "}" << std::endl;
    Simulator::Destroy();
}
