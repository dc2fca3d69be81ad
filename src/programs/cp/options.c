/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parsing of the command line with getopt_long. One table says what exists, what it is for and how
 * --help describes it.
 */
#include "options.h"

#include "report.h"
#include "room.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for an option as it was typed; longer ones are cut. */
#define TYPED_MAX 256

#define SERVE  CP_COMMAND_SERVE
#define CLIENT (CP_COMMAND_PUT | CP_COMMAND_GET | CP_COMMAND_LIST)
#define COPY   (CP_COMMAND_PUT | CP_COMMAND_GET | CP_COMMAND_PLAIN)
#define ANY    (SERVE | CLIENT | CP_COMMAND_PLAIN)

static const struct option_row {
    int letter; /* above 255: no short form */
    const char *name;
    const char *value; /* NULL: none */
    unsigned commands;
    const char *help;
} rows[] = {
    {'r', "recursive", NULL, CLIENT | CP_COMMAND_PLAIN, "whole directory trees"},
    {'c', "checksum", NULL, COPY, "compare SHA-256 of every file at both ends"},
    {'j', "json", NULL, CLIENT | CP_COMMAND_PLAIN, "one JSON object per line on standard output"},
    {'q', "quiet", NULL, CLIENT, "no progress bar"},
    {'t', "timeout", "SECONDS", CLIENT, "give up after so long without a sign of life (30)"},
    {256, "sync", NULL, CP_COMMAND_PUT | CP_COMMAND_GET,
     "a file counts as copied when it is on stable storage"},
    {'l', "listen", "ADDR:PORT", SERVE, "where to listen (127.0.0.1:7475); port 0: any free one"},
    {'a', "allow", "CIDR", SERVE, "let in clients of this network only; may be repeated"},
    {257, "insecure", NULL, SERVE, "let in anybody who can reach the address"},
    {258, "read-only", NULL, SERVE, "refuse put"},
    {259, "max-connections", "N", SERVE, "clients at a time (64)"},
    {268, "max-per-address", "N", SERVE, "of one address, at most (three quarters of them)"},
    {260, "idle", "SECONDS", SERVE, "end a client that asks for nothing for so long (60)"},
    {267, "keep-free", "SIZE", SERVE, "leave so much of the disk free (5 %, at most 1G)"},
    {'v', "verbose", NULL, SERVE, "a line on standard error for each client that has ended"},
    {261, "depth", "N", ANY,
     "slots of a transfer, pieces under way at a time (C: 8, far away up to 64; S: 64 at most)"},
    {262, "block", "SIZE", ANY, "octets of a slot; K and M are understood (512K)"},
    {263, "no-crc", NULL, SERVE | CLIENT, "without CRC32c, if the other end says so too"},
    {264, "early", NULL, SERVE | CLIENT, "place data before its CRC32c is checked"},
    {265, "mpa-rev", "1|2", CLIENT, "revision of the MPA start-up (2)"},
    {'T', "tls", "HOW", SERVE | CLIENT,
     "TLS: a folder that keygen has made, or psk=FILE, or cert=FILE,key=FILE,ca=FILE"},
    {269, "allow-id", "ID", SERVE, "with --tls: let in this identity only; may be repeated"},
    {266, "ulpdu", "OCTETS", SERVE | CLIENT, "largest ULPDU to send (from the path)"},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const struct {
    const char *name;
    enum cp_command command;
} commands[] = {
    {"serve", CP_COMMAND_SERVE},       {"put", CP_COMMAND_PUT},         {"get", CP_COMMAND_GET},
    {"ls", CP_COMMAND_LIST},           {"plain-tcp", CP_COMMAND_PLAIN}, {"help", CP_COMMAND_HELP},
    {"keygen", CP_COMMAND_KEYGEN},     {"--help", CP_COMMAND_HELP},     {"-h", CP_COMMAND_HELP},
    {"--version", CP_COMMAND_VERSION}, {"-V", CP_COMMAND_VERSION},
};

void cp_options_help(void)
{
    puts("iwarp-cp copies files and trees by RDMA over TCP (iWARP). Without --tls there is no\n"
         "encryption.\n"
         "\n"
         "  iwarp-cp serve [OPTION...] DIR                         let clients copy to and from "
         "DIR\n"
         "  iwarp-cp put [-r] [OPTION...] FILE... iwarp://HOST[:PORT]/NAME\n"
         "  iwarp-cp get [-r] [OPTION...] iwarp://HOST[:PORT]/NAME FILE\n"
         "  iwarp-cp ls [-r] [OPTION...] iwarp://HOST[:PORT]/[NAME]\n"
         "  iwarp-cp keygen DIR [NAME[=HOST,...]...]               certificates for --tls\n"
         "\n"
         "A NAME or FILE that ends in / is a directory to copy into; a single file goes into a\n"
         "directory that is there already. HOST may be a name, an IPv4 or an [IPv6] address.\n");
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct option_row *row = &rows[i];
        char left[64], letter[8] = "    ";
        if (row->letter < 256) {
            snprintf(letter, sizeof letter, "-%c, ", row->letter);
        }
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, row->value ? " " : "",
                 row->value ? row->value : "");
        printf("  %-26s %-4s %s\n", left,
               row->commands == SERVE  ? "S"
               : row->commands & SERVE ? "S C"
                                       : "C",
               row->help);
    }
    puts("\nS: serve, C: put, get, ls. Exit status: 0 done, 1 some file could not be copied, 2 "
         "wrong\n"
         "usage, 3 no connection to a server, 4 connection broken. See man iwarp-cp.");
}

static bool wrong(const char *what, const char *why)
{
    cp_error(what, why, "see iwarp-cp --help");
    return false;
}

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    size_t digits = strspn(text, "0123456789");
    uint64_t unit = 1;

    if (digits == 0 || digits > 9) {
        return false;
    }
    if (strcmp(text + digits, "K") == 0) {
        unit = 1024;
    } else if (strcmp(text + digits, "M") == 0) {
        unit = 1024 * 1024;
    } else if (strcmp(text + digits, "G") == 0) {
        unit = 1024 * 1024 * 1024;
    } else if (text[digits]) {
        return false;
    }
    *value = strtoul(text, NULL, 10) * unit;
    return *value >= low && *value <= high;
}

/* The options with a number: where it goes and what is allowed. */
static bool set_number(struct cp_options *options, int letter, const char *text, const char *typed)
{
    uint64_t value = 0;
    char why[96];
    unsigned *target = NULL;
    uint64_t low = 1, high = 86400;

    switch (letter) {
    case 't':
        target = &options->timeout_s;
        break;
    case 259:
        target = &options->max_connections;
        high = 1024;
        break;
    case 268:
        target = &options->max_per_address;
        high = 1024;
        break;
    case 260:
        target = &options->idle_s;
        break;
    case 261:
        target = &options->slots;
        high = CP_SLOTS_MAX;
        break;
    case 262:
        target = &options->slot_size;
        low = CP_SLOT_SIZE_MIN;
        high = CP_SLOT_SIZE_MAX;
        break;
    case 265:
        target = &options->conn.mpa_rev;
        high = 2;
        break;
    default:
        target = &options->conn.ulpdu_max;
        low = 128;
        high = 64768;
        break;
    }
    if (!parse_number(text, low, high, &value)) {
        snprintf(why, sizeof why, "not a number from %" PRIu64 " to %" PRIu64, low, high);
        return wrong(typed, why);
    }
    *target = (unsigned)value;
    options->all_slots = options->all_slots || target == &options->slots;
    return true;
}

static bool set_keep_free(struct cp_options *options, const char *text, const char *typed)
{
    return parse_number(text, 0, UINT64_MAX - 1, &options->keep_free) ||
           wrong(typed, "not a number of octets; K, M and G are understood");
}

static bool add_allow(struct cp_options *options, const char *text, const char *typed)
{
    if (options->allow_count == CP_ALLOW_MAX) {
        return wrong(typed, "more networks than there is room for");
    }
    if (!cp_network_parse(text, &options->allow[options->allow_count++])) {
        cp_error(typed, "not a network",
                 "write 192.0.2.0/24 or 2001:db8::/32, with zeros behind the prefix");
        return false;
    }
    return true;
}

static bool set_listen(struct cp_options *options, const char *text, const char *typed)
{
    const char *why = cp_address_parse(text, strlen(text), &options->listen);

    return why ? wrong(typed, why) : true;
}

static bool set_tls(struct cp_options *options, const char *value, const char *typed)
{
    if (options->tls[0]) {
        return wrong(typed, "it may be given once, and before --allow-id");
    }
    const char *why = cp_tls_begin(value, options->tls);

    options->conn.tls = options->tls;
    return why ? wrong(typed, why) : true;
}

static bool add_id(struct cp_options *options, const char *value, const char *typed)
{
    const char *why =
        options->tls[0] ? cp_tls_allow(value, options->tls) : "--tls must be in front of it";

    return why ? wrong(typed, why) : true;
}

/* typed: the option and its value, for errors. */
static bool set_option(struct cp_options *options, int letter, const char *value, const char *typed)
{
    switch (letter) {
    case 'r':
        options->recursive = true;
        return true;
    case 'c':
        options->checksum = true;
        return true;
    case 'j':
        options->json = true;
        return true;
    case 'q':
        options->quiet = true;
        return true;
    case 'v':
        options->verbose = true;
        return true;
    case 'T':
        return set_tls(options, value, typed);
    case 269:
        return add_id(options, value, typed);
    case 'l':
        return set_listen(options, value, typed);
    case 'a':
        return add_allow(options, value, typed);
    case 256:
        options->sync = true;
        return true;
    case 257:
        options->insecure = true;
        return true;
    case 258:
        options->read_only = true;
        return true;
    case 267:
        return set_keep_free(options, value, typed);
    case 263:
        options->conn.crc = false;
        return true;
    case 264:
        options->conn.placement = IWARP_PLACE_EARLY;
        return true;
    default:
        return set_number(options, letter, value, typed);
    }
}

static void set_defaults(struct cp_options *options)
{
    memset(options, 0, sizeof *options);
    iwarp_conn_options_init(&options->conn);
    options->slots = CP_SLOTS_MAX;
    options->slot_size = CP_SLOT_SIZE_DEFAULT;
    options->timeout_s = CP_TIMEOUT_SECONDS_DEFAULT;
    options->max_connections = CP_CONNECTIONS_DEFAULT;
    options->idle_s = CP_IDLE_SECONDS_DEFAULT;
    options->keep_free = CP_KEEP_FREE_AUTO;
    (void)cp_address_parse("127.0.0.1", 9, &options->listen);
}

static bool check(const struct cp_options *options)
{
    size_t count = options->argument_count;

    if (options->all_slots && (size_t)options->slots * options->slot_size > CP_SLOT_MEMORY_MAX) {
        return wrong("--depth times --block", "more than 64M");
    }
    switch (options->command) {
    case CP_COMMAND_SERVE:
        return count == 1 || wrong("serve", "needs one directory");
    case CP_COMMAND_PUT:
        return (count >= 2 && cp_url_is(options->arguments[count - 1])) ||
               wrong("put", "needs files and, last, iwarp://HOST[:PORT]/NAME");
    case CP_COMMAND_GET:
        return (count == 2 && cp_url_is(options->arguments[0])) ||
               wrong("get", "needs iwarp://HOST[:PORT]/NAME and a file");
    case CP_COMMAND_LIST:
        return (count == 1 && cp_url_is(options->arguments[0])) ||
               wrong("ls", "needs iwarp://HOST[:PORT]/[NAME]");
    case CP_COMMAND_PLAIN:
        return count == 2 || wrong("plain-tcp", "needs a source and a target");
    case CP_COMMAND_KEYGEN:
        return count >= 1 || wrong("keygen", "needs a directory");
    case CP_COMMAND_HELP:
    case CP_COMMAND_VERSION:
        break;
    }
    return true;
}

/* The row's command must be the one that was given. */
static const struct option_row *find_row(int letter)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].letter == letter) {
            return &rows[i];
        }
    }
    return NULL;
}

/* What getopt_long has just taken, as it was typed: long names may have been cut short there. */
static void option_as_typed(int letter, bool is_long, char **argv, char typed[TYPED_MAX])
{
    if (!is_long) {
        snprintf(typed, TYPED_MAX, "-%c", letter);
        return;
    }
    /* The value is a word of its own, or in the same one behind '='. */
    const char *word = argv[optarg == argv[optind - 1] ? optind - 2 : optind - 1];
    snprintf(typed, TYPED_MAX, "%.*s", (int)strcspn(word, "="), word);
}

/* What getopt_long could make nothing of: letter is '?' or ':', optopt says which option. */
static bool refuse(int letter, const char *word)
{
    char typed[TYPED_MAX];

    if (optopt > 0 && optopt != 'h' && optopt != 'V' && !find_row(optopt)) {
        snprintf(typed, sizeof typed, "-%c", optopt);
        return wrong(typed, "no such option");
    }
    if (optopt > 0 && letter == ':' && strncmp(word, "--", 2) != 0) {
        snprintf(typed, sizeof typed, "-%c", optopt);
    } else {
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word);
    }
    if (letter == ':') {
        return wrong(typed, "it needs a value");
    }
    return wrong(typed, optopt > 0 ? "it takes no value" : "no such option, or short for several");
}

static bool parse_options(int argc, char **argv, struct cp_options *options)
{
    struct option longs[ROW_COUNT + 3] = {{"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'}};
    char letters[2 * ROW_COUNT + 4] = ":hV";
    int letter, index = -1;

    for (size_t i = 0; i < ROW_COUNT; i++) {
        longs[i + 2] = (struct option){
            rows[i].name, rows[i].value ? required_argument : no_argument, NULL, rows[i].letter};
        if (rows[i].letter < 256) {
            char add[3] = {(char)rows[i].letter, rows[i].value ? ':' : '\0', '\0'};
            strcat(letters, add);
        }
    }
    opterr = 0;
    while ((letter = getopt_long(argc, argv, letters, longs, &index)) != -1) {
        const struct option_row *row = find_row(letter);
        char typed[TYPED_MAX];
        if (letter == 'h' || letter == 'V') {
            options->command = letter == 'h' ? CP_COMMAND_HELP : CP_COMMAND_VERSION;
            return true;
        }
        if (!row) {
            return refuse(letter, argv[optind - 1]);
        }
        option_as_typed(letter, index >= 0, argv, typed);
        index = -1;
        if (!(row->commands & (unsigned)options->command)) {
            return wrong(typed, "this option is for another command");
        }
        if (optarg) {
            size_t len = strlen(typed);
            snprintf(typed + len, sizeof typed - len, " %s", optarg);
        }
        if (!set_option(options, letter, optarg, typed)) {
            return false;
        }
    }
    return true;
}

bool cp_options_parse(int argc, char **argv, struct cp_options *options)
{
    set_defaults(options);
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            options->command = commands[i].command;
        }
    }
    if (!options->command) {
        return argc > 1
                   ? wrong(argv[1], "no such command; there are serve, put, get, ls and keygen")
                   : wrong("no command", "there are serve, put, get, ls and keygen");
    }
    if (!parse_options(argc - 1, argv + 1, options)) {
        return false;
    }
    options->arguments = argv + 1 + optind;
    options->argument_count = (size_t)(argc - 1 - optind);
    return check(options);
}
