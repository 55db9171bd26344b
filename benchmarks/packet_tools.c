/* Tools of forwarding.py: a sender that floods an interface and a forwarder that does nothing but copy.
 *
 *     packet_tools send INTERFACE BYTES SECONDS        Ethernet/IPv4/UDP frames to 10.0.0.2, flows by source port
 *     packet_tools forward INTERFACE INTERFACE         one frame per recv and send, both ways, until killed
 *     packet_tools latency INTERFACE INTERFACE BYTES COUNT
 *         frames one at a time from the first to the second; prints "P50 P99 LOST", in microseconds
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define MAX_FRAME 9216

static int open_interface(const char *name) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, size = 16 << 20;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    address.sll_ifindex = (int)if_nametoindex(name);
    if (fd < 0 || !address.sll_ifindex) {
        fprintf(stderr, "cannot open %s\n", name);
        exit(1);
    }
    setsockopt(fd, SOL_PACKET, 23 /* PACKET_IGNORE_OUTGOING */, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        exit(1);
    return fd;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint16_t checksum(const uint8_t *data, int size) {
    uint32_t sum = 0;
    for (int i = 0; i < size; i += 2)
        sum += (uint32_t)data[i] << 8 | data[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* An Ethernet/IPv4/UDP frame to 10.0.0.2 of flow `flow`. */
static void fill_frame(uint8_t *f, int size, int flow) {
    memcpy(f, "\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0", 14);
    memcpy(f + 14, "\x45\0\0\0\0\0\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02", 20);
    f[16] = (uint8_t)((size - 14) >> 8), f[17] = (uint8_t)(size - 14);
    uint16_t sum = checksum(f + 14, 20);
    f[24] = (uint8_t)(sum >> 8), f[25] = (uint8_t)sum;
    f[34] = 0xc0, f[35] = (uint8_t)flow, f[36] = 0x12, f[37] = 0xb7;
    f[38] = (uint8_t)((size - 34) >> 8), f[39] = (uint8_t)(size - 34);
}

static int send_frames(const char *name, int size, double seconds) {
    static uint8_t frames[BATCH][MAX_FRAME];
    struct mmsghdr messages[BATCH] = {0};
    struct iovec vectors[BATCH];
    int fd = open_interface(name);
    for (int i = 0; i < BATCH; i++) {
        fill_frame(frames[i], size, i);
        vectors[i] = (struct iovec){frames[i], (size_t)size};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
    }
    unsigned long sent = 0;
    for (double end = now() + seconds; now() < end;) {
        int count = sendmmsg(fd, messages, BATCH, 0);
        if (count > 0)
            sent += (unsigned long)count;
    }
    printf("%lu\n", sent);
    return 0;
}

static int forward(const char *first, const char *second) {
    static uint8_t frame[MAX_FRAME];
    struct pollfd ports[2] = {{open_interface(first), POLLIN, 0}, {open_interface(second), POLLIN, 0}};
    for (;;) {
        poll(ports, 2, -1);
        for (int i = 0; i < 2; i++)
            for (ssize_t size; (size = recv(ports[i].fd, frame, sizeof frame, MSG_DONTWAIT)) > 0;)
                send(ports[1 - i].fd, frame, (size_t)size, 0);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure_latency(const char *from, const char *to, int size, int count) {
    static uint8_t frame[MAX_FRAME], got[MAX_FRAME];
    double *times = malloc(sizeof *times * (size_t)count);
    int out = open_interface(from), in = open_interface(to), seen = 0, lost = 0;
    struct pollfd waiting = {.fd = in, .events = POLLIN};
    fill_frame(frame, size, 0);
    for (int i = 0; i < count; i++) {
        frame[size - 2] = (uint8_t)(i >> 8), frame[size - 1] = (uint8_t)i;
        double begin = now();
        if (send(out, frame, (size_t)size, 0) != size)
            return 1;
        for (;;) {
            if (poll(&waiting, 1, 1000) <= 0) {
                lost++;
                break;
            }
            if (recv(in, got, sizeof got, 0) == size && !memcmp(got + size - 2, frame + size - 2, 2)) {
                times[seen++] = (now() - begin) * 1e6;
                break;
            }
        }
        usleep(300);
    }
    qsort(times, (size_t)seen, sizeof *times, by_size);
    if (seen)
        printf("%.1f %.1f %d\n", times[seen / 2], times[seen * 99 / 100], lost);
    free(times);
    return seen ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "send"))
        return send_frames(argv[2], atoi(argv[3]), atof(argv[4]));
    if (argc == 4 && !strcmp(argv[1], "forward"))
        return forward(argv[2], argv[3]);
    if (argc == 6 && !strcmp(argv[1], "latency"))
        return measure_latency(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
    return 2;
}
