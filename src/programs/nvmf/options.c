/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parsing of the command line. --nqn begins a subsystem; --ns, --read-only, --block and --host are
 * about the last one.
 */
#include "options.h"

#include "programs/service/address.h"
#include "programs/service/service.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT   4420
#define MEMORY ((size_t)64 << 20)

#define MEMORY_MIN ((uint64_t)2 << 20)
#define MEMORY_MAX ((uint64_t)64 << 30)

static const struct option_row {
    int letter;
    const char *name, *value, *help;
} rows[] = {
    {'l', "listen", "ADDR[:PORT]", "where hosts find it (127.0.0.1:4420)"},
    {'q', "nqn", "NQN", "begin a subsystem of this name"},
    {'n', "ns", "DISK", "a namespace of it: a file, a block device, or ram:SIZE; may be repeated"},
    {'r', "read-only", NULL, "no writes to its namespaces that follow"},
    {'b', "block", "512|4096", "octets of a logical block of its namespaces that follow (4096)"},
    {260, "nsid", "N", "the number of its namespace that follows (the first that is free)"},
    {'H', "host", "NQN", "a host that may have it; may be repeated; without it: any host"},
    {259, "secrets", "FILE",
     "hosts, and what each has to know (DH-HMAC-CHAP); nobody else may come"},
    {'m', "memory", "SIZE", "of all I/O buffers together (64M)"},
    {'c', "config", "FILE", "more of these options, as YAML or JSON"},
    {258, "metrics", "ADDR:PORT", "figures for Prometheus and for iwarp-nvmf status, by HTTP"},
    {'T', "tls", "HOW",
     "TLS: a folder of iwarp-cp keygen, psk=FILE, or cert=FILE,key=FILE,ca=FILE"},
    {256, "no-crc", NULL, "without CRC32c, if the host does not ask for it"},
    {257, "no-uring", NULL, "read and write by threads, not by io_uring"},
    {'h', "help", NULL, "this text"},
    {'V', "version", NULL, "the version"},
};

#define ROWS (sizeof rows / sizeof rows[0])

void nvmf_options_help(void)
{
    puts("iwarp-nvmf serves disks to hosts of NVMe over Fabrics, by RDMA over TCP (iWARP).\n"
         "Without --tls there is no encryption, and the name of a host is not a secret.\n\n"
         "  iwarp-nvmf [--listen ADDR:PORT] --nqn NQN --ns DISK... [OPTION...]\n"
         "  iwarp-nvmf status ADDR:PORT                    what a target with --metrics does\n"
         "  iwarp-nvmf bench -q NQN [-a ADDR:PORT] ...     measure such a target\n");
    for (size_t i = 0; i < ROWS; i++) {
        char left[64], letter[8] = "    ";
        if (rows[i].letter < 256) {
            snprintf(letter, sizeof letter, "-%c, ", rows[i].letter);
        }
        snprintf(left, sizeof left, "%s--%s%s%s", letter, rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        printf("  %-28s %s\n", left, rows[i].help);
    }
    puts("\nSIGHUP: read the file again, and look at the sizes of all disks. See man iwarp-nvmf.");
}

static bool wrong(const char *what, const char *why)
{
    fprintf(stderr, "iwarp-nvmf: %s: %s; see iwarp-nvmf --help\n", what, why);
    return false;
}

/* One more element of an array that grows; NULL: no memory. */
static void *grow(void *array, size_t *count, size_t size)
{
    char *grown = realloc(*(void **)array, (*count + 1) * size);

    if (!grown) {
        return NULL;
    }
    *(void **)array = grown;
    memset(grown + *count * size, 0, size);
    return grown + (*count)++ * size;
}

static bool set_memory(struct nvmf_options *options, const char *text)
{
    options->memory = (size_t)disk_size_read(text);
    return (options->memory >= MEMORY_MIN && options->memory <= MEMORY_MAX) ||
           wrong(text, "not a size from 2M to 64G");
}

static bool set_of_subsystem(struct nvmf_options *options, int letter, const char *value,
                             struct nvmf_wanted_disk *next)
{
    struct nvmf_wanted_disk *disk;
    struct nvmf_wanted *last;
    const char **host;
    char *end;

    if (options->subsystem_count == 0) {
        return wrong(value ? value : "--read-only", "there is no --nqn before it");
    }
    last = &options->subsystems[options->subsystem_count - 1];
    switch (letter) {
    case 'n':
        disk = grow(&last->disks, &last->disk_count, sizeof *disk);
        if (disk) {
            *disk = *next;
            disk->name = value;
            next->nsid = 0;
        }
        return disk || wrong(value, "not enough memory");
    case 'H':
        host = grow(&last->hosts, &last->host_count, sizeof *host);
        if (host) {
            *host = value;
        }
        return host || wrong(value, "not enough memory");
    case 'r':
        next->read_only = true;
        return true;
    case 260:
        next->nsid = (uint32_t)strtoul(value, &end, 10);
        return (!*end && next->nsid >= 1 && next->nsid <= NVMF_NAMESPACES && strlen(value) <= 3) ||
               wrong(value, "not a number from 1 to 256");
    default:
        next->block = (uint32_t)strtoul(value, NULL, 10);
        return next->block == 512 || next->block == 4096 || wrong(value, "neither 512 nor 4096");
    }
}

static bool set_tls(struct nvmf_options *options, const char *value)
{
    free(options->tls);
    options->tls = service_tls(value);
    return options->tls || wrong(value, "not enough memory");
}

bool nvmf_options_set(struct nvmf_options *options, int letter, const char *value,
                      struct nvmf_wanted_disk *next)
{
    struct nvmf_wanted *subsystem;

    switch (letter) {
    case 'l':
        return address_parse(value, PORT, &options->listen, &options->listen_len) ||
               wrong(value, "not an address with a port");
    case 'q':
        memset(next, 0, sizeof *next);
        subsystem = grow(&options->subsystems, &options->subsystem_count, sizeof *subsystem);
        if (subsystem) {
            subsystem->nqn = value;
        }
        return subsystem || wrong(value, "not enough memory");
    case 'm':
        return set_memory(options, value);
    case 'c':
        options->config_file = value;
        return true;
    case 'T':
        return set_tls(options, value);
    case 258:
        return address_parse(value, 0, &options->metrics, &options->metrics_len) ||
               wrong(value, "not an address with a port");
    case 259:
        options->secrets = value;
        return true;
    case 256:
        options->crc = false;
        return true;
    case 257:
        options->uring = false;
        return true;
    case 'h':
        options->command = NVMF_RUN_HELP;
        return true;
    case 'V':
        options->command = NVMF_RUN_VERSION;
        return true;
    case '?':
        return false;
    default:
        return set_of_subsystem(options, letter, value, next);
    }
}

bool nvmf_options_parse(int argc, char **argv, struct nvmf_options *options)
{
    struct option longs[ROWS + 1] = {{0}};
    struct nvmf_wanted_disk next = {0};
    int letter;

    memset(options, 0, sizeof *options);
    options->memory = MEMORY;
    options->uring = options->crc = true;
    address_parse("127.0.0.1", PORT, &options->listen, &options->listen_len);
    for (size_t i = 0; i < ROWS; i++) {
        longs[i].name = rows[i].name;
        longs[i].has_arg = rows[i].value ? required_argument : no_argument;
        longs[i].val = rows[i].letter;
    }
    optind = 1;
    while ((letter = getopt_long(argc, argv, "l:q:n:rb:H:m:c:T:hV", longs, NULL)) != -1) {
        if (!nvmf_options_set(options, letter, optarg, &next)) {
            return false;
        }
    }
    if (optind < argc) {
        return wrong(argv[optind], "not an option");
    }
    if (options->command == NVMF_RUN_SERVE && options->subsystem_count == 0 &&
        !options->config_file) {
        return wrong("--nqn or --config", "is missing");
    }
    return true;
}
