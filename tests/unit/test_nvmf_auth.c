/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DH-HMAC-CHAP: responses beside ones that Python's hmac has computed, and exchanges with a target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "nvmf_side.h"
#include "programs/nvmf-target/net.h"
#include "programs/nvmf-target/secrets.h"

#include <sys/stat.h>

#define DNR 0x4000

#define SECRET_32 "DHHC-1:00:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:"
#define BOUND_32  "DHHC-1:01:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nuz7TWq:"
#define BOUND_48                                                                                   \
    "DHHC-1:02:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMRdxyRQ==:"
#define BOUND_64                                                                                   \
    "DHHC-1:03:BAsSGSAnLjU8Q0pRWF9mbXR7gomQl56lrLO6wcjP1t3k6/"                                     \
    "L5AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vVR3QN4=:"

/* --- computations ---------------------------------------------------------------------------- */

static struct nvmf_secret secret(const char *text)
{
    struct nvmf_secret secret;

    assert_true(nvmf_secret_read(text, &secret));
    return secret;
}

static void secret__as_nvme_cli_prints_it__is_read(void **state)
{
    (void)state;
    assert_int_equal(secret(SECRET_32).len, 32);
    assert_int_equal(secret(SECRET_32).hash, 0);
    assert_int_equal(secret(SECRET_32).key[1], 8);
    assert_int_equal(secret(BOUND_48).len, 48);
    assert_int_equal(secret(BOUND_48).hash, 2);
    assert_int_equal(secret(BOUND_64).len, 64);
    assert_int_equal(secret(BOUND_64).key[63], (4 + 7 * 63) % 256);
}

static void secret__with_any_octet_changed_or_cut__is_refused(void **state)
{
    struct nvmf_secret secret;
    char text[sizeof BOUND_64];

    (void)state;
    for (size_t i = 0; i < sizeof BOUND_64 - 1; i++) {
        strcpy(text, BOUND_64);
        text[i] ^= 1;
        /* 03 becomes 02, which is as good; the lowest bit before the = means nothing. */
        assert_int_equal(nvmf_secret_read(text, &secret), i == 8 || i == sizeof BOUND_64 - 4);
        strcpy(text, BOUND_64);
        text[i] = '\0';
        assert_false(nvmf_secret_read(text, &secret));
    }
    assert_false(
        nvmf_secret_read("DHHC-1:04:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:", &secret));
    assert_false(nvmf_secret_read("DHHC-1:00:AQgP:", &secret));
}

static void prove__literal_inputs__gives_the_response_of_another_implementation(void **state)
{
    static const uint8_t host_256[] = {0x63, 0x7c, 0x8d, 0x0c, 0x40, 0x05, 0x66, 0x5d,
                                       0x91, 0xcc, 0xeb, 0x46, 0x88, 0x27, 0x58, 0x5c,
                                       0x42, 0x11, 0x01, 0x2a, 0xc5, 0xd4, 0xaa, 0xdf,
                                       0x3f, 0x8e, 0x7b, 0x1c, 0x07, 0x10, 0xf0, 0xaa};
    static const uint8_t target_512[] = {
        0xa1, 0xad, 0x6d, 0x95, 0xe6, 0x15, 0x56, 0xe6, 0xeb, 0x24, 0x01, 0xc5, 0x75,
        0x77, 0x97, 0xe5, 0x75, 0x5a, 0x6b, 0xff, 0x22, 0x42, 0xca, 0x20, 0x64, 0x82,
        0x1c, 0xfc, 0x7b, 0x71, 0xf2, 0xd6, 0x39, 0xfd, 0x70, 0xac, 0xee, 0x7c, 0x12,
        0x0e, 0xb8, 0xb1, 0x20, 0x27, 0xf4, 0x78, 0x16, 0xcb, 0xaa, 0x34, 0x58, 0xab,
        0xde, 0xfc, 0x62, 0xfc, 0x5f, 0x35, 0x1b, 0x73, 0x8e, 0xfa, 0x76, 0x89};
    static const uint8_t host_384[] = {0xea, 0x58, 0x18, 0x3f, 0x98, 0x86, 0xbd, 0x28, 0x6c, 0xfd,
                                       0xe2, 0x61, 0x25, 0xc2, 0x9b, 0x44, 0x04, 0x34, 0xda, 0x2f,
                                       0x11, 0x43, 0x28, 0xb3, 0x79, 0xd6, 0xee, 0x05, 0x08, 0xda,
                                       0xc7, 0x06, 0xec, 0x02, 0xbe, 0x22, 0xef, 0x1b, 0xf7, 0xe1,
                                       0x65, 0x5a, 0x50, 0x38, 0x0b, 0x19, 0x1e, 0x23};
    struct nvmf_secret plain = secret(SECRET_32), bound = secret(BOUND_48),
                       small = secret(BOUND_32);
    uint8_t challenge[64], shared[256], response[NVMF_DIGEST_MAX];
    struct nvmf_proof proof = {.hash = 1,
                               .secret = &plain,
                               .challenge = challenge,
                               .sequence = 0x01020304,
                               .transaction = 0x1122,
                               .by_host = true,
                               .from = SIDE_HOST,
                               .to = SIDE_NQN};

    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        challenge[i % 64] = (uint8_t)(i % 64);
        shared[i] = (uint8_t)(255 - i);
    }
    assert_true(nvmf_prove(&proof, response));
    assert_memory_equal(response, host_256, sizeof host_256);
    proof = (struct nvmf_proof){.hash = 3,
                                .secret = &bound,
                                .challenge = challenge,
                                .shared = shared,
                                .shared_len = sizeof shared,
                                .sequence = 0xfffffffe,
                                .transaction = 7,
                                .from = SIDE_NQN,
                                .to = SIDE_HOST};
    assert_true(nvmf_prove(&proof, response));
    assert_memory_equal(response, target_512, sizeof target_512);
    proof = (struct nvmf_proof){.hash = 2,
                                .secret = &small,
                                .challenge = challenge,
                                .shared = shared,
                                .shared_len = sizeof shared,
                                .sequence = 1,
                                .by_host = true,
                                .from = SIDE_HOST,
                                .to = SIDE_NQN};
    assert_true(nvmf_prove(&proof, response));
    assert_memory_equal(response, host_384, sizeof host_384);
}

static void agree__each_group__gives_both_ends_the_same(void **state)
{
    uint8_t one[NVMF_DH_MAX], other[NVMF_DH_MAX], of_one[NVMF_DH_MAX], of_other[NVMF_DH_MAX];

    (void)state;
    for (uint8_t group = 1; group <= 3; group++) {
        size_t len = nvmf_group_len(group);
        EVP_PKEY *a = nvmf_dh_new(group), *b = nvmf_dh_new(group);
        assert_true(a && b && nvmf_dh_public(a, one) && nvmf_dh_public(b, other));
        assert_true(nvmf_dh_agree(a, other, len, of_one));
        assert_true(nvmf_dh_agree(b, one, len, of_other));
        assert_memory_equal(of_one, of_other, len);
        memset(one, 0, len);
        assert_false(nvmf_dh_agree(b, one, len, of_other)); /* 0 and 1 would give away the key */
        one[len - 1] = 1;
        assert_false(nvmf_dh_agree(b, one, len, of_other));
        memset(one, 0xff, len);
        assert_false(nvmf_dh_agree(b, one, len, of_other)); /* beyond the prime */
        nvmf_dh_free(a);
        nvmf_dh_free(b);
    }
    assert_int_equal(nvmf_group_len(0), 0);
    assert_null(nvmf_group_name(6));
}

/* --- the file -------------------------------------------------------------------------------- */

static char path[64];

static bool load(struct nvmf_secrets *secrets, const char *text, mode_t mode)
{
    const char *tmp = getenv("TMPDIR");
    bool good;
    int fd;

    snprintf(path, sizeof path, "%.40s/secrets-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(path);
    side_must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    side_must(fchmod(fd, mode) == 0, path);
    close(fd);
    good = nvmf_secrets_load(secrets, path);
    unlink(path);
    return good;
}

static void file__of_secrets__says_what_is_wrong_and_keeps_what_was(void **state)
{
    struct nvmf_secrets secrets = {0};

    (void)state;
    assert_true(load(&secrets, "# hosts\n\n  a " SECRET_32 "\nb\t" BOUND_48 " " BOUND_64, 0600));
    assert_int_equal(secrets.count, 2);
    assert_false(nvmf_secrets_find(&secrets, "a")->mutual);
    assert_int_equal(nvmf_secrets_find(&secrets, "b")->target.len, 64);
    assert_null(nvmf_secrets_find(&secrets, "c"));
    assert_false(load(&secrets, "a\n", 0600));
    assert_false(load(&secrets, "a " SECRET_32 " x\n", 0600));
    assert_false(load(&secrets, "a " SECRET_32 "\na " SECRET_32 "\n", 0600));
    assert_false(load(&secrets, "# nobody\n", 0600));
    assert_false(load(&secrets, "a " SECRET_32 "\n", 0604));
    assert_false(nvmf_secrets_load(&secrets, "/nonexistent"));
    assert_int_equal(secrets.count, 2);
    nvmf_secrets_free(&secrets);
}

/* --- exchanges ------------------------------------------------------------------------------- */

static struct side s;
/* What the host was told in the Challenge. */
static uint8_t challenge[NVMF_PAGE];

#define TRANSACTION 0x0203
#define HEAD        16

static int set_up(void **state)
{
    (void)state;
    side_open(&s, 8 << 20, true);
    side_disk(&s, "ram:1M", false);
    side_must(load(&s.target.controllers.secrets,
                   SIDE_HOST " " BOUND_48 " " BOUND_64 "\n" SIDE_HOST "2 " SECRET_32 "\n", 0600),
              "secrets");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    side_close(&s);
    return 0;
}

static int authentication(struct nvmf_host_queue *queue, uint8_t type, uint32_t octets)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = type};

    nvmf_put32(command + 40, 0xe9010100);
    nvmf_put32(command + 44, octets);
    nvmf_host_data(&s.host, command, 0, octets);
    return nvmf_host_do(queue, command, NULL, 0, NULL);
}

static int receive(struct nvmf_host_queue *queue)
{
    memset(s.host.memory, 0xee, NVMF_PAGE);
    return authentication(queue, NVMF_AUTH_RECEIVE, NVMF_PAGE);
}

static void head(uint8_t type, uint8_t id)
{
    memset(s.host.memory, 0, NVMF_PAGE);
    s.host.memory[0] = type;
    s.host.memory[1] = id;
    nvmf_put16(s.host.memory + 4, TRANSACTION);
}

/* Offers SHA-384 and one group. */
static int negotiate(struct nvmf_host_queue *queue, uint8_t group)
{
    head(0, 0);
    s.host.memory[7] = s.host.memory[8] = 1;
    s.host.memory[10] = s.host.memory[11] = 1;
    s.host.memory[12] = 2;
    s.host.memory[42] = group;
    return authentication(queue, NVMF_AUTH_SEND, 72);
}

/* Answers what is in `challenge`. c2: the host's own challenge, or NULL. */
static int reply(struct nvmf_host_queue *queue, const char *text, const uint8_t *c2,
                 uint8_t shared[NVMF_DH_MAX])
{
    struct nvmf_secret own = secret(text);
    size_t group = nvmf_get16(challenge + 10);
    struct nvmf_proof proof = {.hash = challenge[8],
                               .secret = &own,
                               .challenge = challenge + HEAD,
                               .shared = shared,
                               .shared_len = group,
                               .sequence = nvmf_get32(challenge + 12),
                               .transaction = TRANSACTION,
                               .by_host = true,
                               .from = SIDE_HOST,
                               .to = SIDE_NQN};
    EVP_PKEY *pair = group > 0 ? nvmf_dh_new(challenge[9]) : NULL;

    head(1, 2);
    s.host.memory[6] = 48;
    nvmf_put16(s.host.memory + 10, (uint16_t)group);
    nvmf_put32(s.host.memory + 12, c2 ? 77 : 0);
    if (group > 0) {
        assert_true(nvmf_dh_agree(pair, challenge + HEAD + 48, group, shared));
        assert_true(nvmf_dh_public(pair, s.host.memory + HEAD + 96));
    }
    assert_true(nvmf_prove(&proof, s.host.memory + HEAD));
    if (c2) {
        s.host.memory[8] = 1;
        memcpy(s.host.memory + HEAD + 48, c2, 48);
    }
    nvmf_dh_free(pair);
    return authentication(queue, NVMF_AUTH_SEND, (uint32_t)(HEAD + 96 + group));
}

static void hear_challenge(struct nvmf_host_queue *queue, uint8_t group)
{
    assert_int_equal(negotiate(queue, group), NVMF_OK);
    assert_int_equal(receive(queue), NVMF_OK);
    memcpy(challenge, s.host.memory, sizeof challenge);
    assert_int_equal(nvmf_get16(challenge), 0x0101);
    assert_int_equal(nvmf_get16(challenge + 4), TRANSACTION);
    assert_int_equal(challenge[6], 48);
    assert_int_equal(challenge[8], 2);
    assert_int_equal(challenge[9], group);
    assert_int_equal(nvmf_get16(challenge + 10), nvmf_group_len(group));
}

static int property(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_PROPERTY_GET};

    command[39] = 0x40;
    nvmf_put32(command + 44, NVMF_CSTS);
    return nvmf_host_do(s.admin, command, NULL, 0, &s.result);
}

static int enable(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_PROPERTY_SET};

    command[39] = 0x40;
    nvmf_put32(command + 44, NVMF_CC);
    nvmf_put64(command + 48, 0x460001);
    return nvmf_host_do(s.admin, command, NULL, 0, NULL);
}

/* Connect is answered, and nothing else. */
static void join(void)
{
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, SIDE_NQN, SIDE_HOST, 0xffff, 0),
                     NVMF_AUTH_REQUIRED | DNR);
}

static void failed(struct nvmf_host_queue *queue, uint8_t reason)
{
    assert_int_equal(receive(queue), NVMF_OK);
    assert_int_equal(nvmf_get16(s.host.memory), 0xf100);
    assert_int_equal(s.host.memory[6], 1);
    assert_int_equal(s.host.memory[7], reason);
    side_run(&s, queue, 5000);
    assert_true(queue->ended);
}

static void exchange__right_secret__opens_each_queue(void **state)
{
    uint8_t shared[NVMF_DH_MAX];

    (void)state;
    join();
    assert_int_equal(property(), NVMF_AUTH_REQUIRED | DNR);
    hear_challenge(s.admin, 2);
    assert_int_equal(property(), NVMF_AUTH_REQUIRED | DNR);
    assert_int_equal(reply(s.admin, BOUND_48, NULL, shared), NVMF_OK);
    assert_int_equal(receive(s.admin), NVMF_OK);
    assert_int_equal(nvmf_get16(s.host.memory), 0x0301);
    assert_int_equal(s.host.memory[8], 0);
    assert_int_equal(enable(), NVMF_OK);
    assert_int_equal(property(), NVMF_OK);
    /* The I/O queue has to show it by itself. */
    s.io = side_queue(&s, 1, 32);
    assert_int_equal(side_join_as(&s, s.io, SIDE_NQN, SIDE_HOST, s.connect.controller_id, 0),
                     NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 0, 0, 4096), NVMF_AUTH_REQUIRED | DNR);
    hear_challenge(s.io, 0); /* without Diffie-Hellman */
    assert_int_equal(reply(s.io, BOUND_48, NULL, shared), NVMF_OK);
    assert_int_equal(receive(s.io), NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 0, 0, 4096), NVMF_OK);
    /* And again, as hosts do from time to time; the queue stays open meanwhile. */
    hear_challenge(s.admin, 1);
    assert_int_equal(property(), NVMF_OK);
    assert_int_equal(reply(s.admin, BOUND_48, NULL, shared), NVMF_OK);
    assert_int_equal(receive(s.admin), NVMF_OK);
    assert_int_equal(property(), NVMF_OK);
}

static void exchange__host_asks_for_a_proof__gets_one_that_is_right(void **state)
{
    uint8_t shared[NVMF_DH_MAX], c2[48], wanted[NVMF_DIGEST_MAX];
    struct nvmf_secret target = secret(BOUND_64);
    struct nvmf_proof proof = {.hash = 2,
                               .secret = &target,
                               .challenge = c2,
                               .shared = shared,
                               .shared_len = 256,
                               .sequence = 77,
                               .transaction = TRANSACTION,
                               .from = SIDE_NQN,
                               .to = SIDE_HOST};

    (void)state;
    memset(c2, 0xc2, sizeof c2);
    join();
    hear_challenge(s.admin, 1);
    assert_int_equal(reply(s.admin, BOUND_48, c2, shared), NVMF_OK);
    assert_int_equal(receive(s.admin), NVMF_OK);
    assert_int_equal(nvmf_get16(s.host.memory), 0x0301);
    assert_int_equal(s.host.memory[8], 1);
    assert_true(nvmf_prove(&proof, wanted));
    assert_memory_equal(s.host.memory + HEAD, wanted, 48);
    assert_int_equal(property(), NVMF_AUTH_REQUIRED | DNR); /* not before the host is content */
    head(1, 4);
    assert_int_equal(authentication(s.admin, NVMF_AUTH_SEND, HEAD), NVMF_OK);
    assert_int_equal(property(), NVMF_OK);
}

static void exchange__host_does_not_believe_the_proof__is_answered_and_loses_the_queue(void **state)
{
    uint8_t shared[NVMF_DH_MAX], c2[48] = {1};

    (void)state;
    join();
    hear_challenge(s.admin, 0);
    assert_int_equal(reply(s.admin, BOUND_48, c2, shared), NVMF_OK);
    assert_int_equal(receive(s.admin), NVMF_OK);
    head(0, 0xf0);
    assert_int_equal(authentication(s.admin, NVMF_AUTH_SEND, HEAD), NVMF_OK);
    side_run(&s, s.admin, 5000);
    assert_true(s.admin->ended);
}

static void exchange__wrong_secret__ends_the_queue_with_the_reason(void **state)
{
    uint8_t shared[NVMF_DH_MAX];

    (void)state;
    join();
    hear_challenge(s.admin, 1);
    assert_int_equal(reply(s.admin, BOUND_64, NULL, shared), NVMF_OK);
    assert_int_equal(property(), NVMF_AUTH_REQUIRED | DNR);
    failed(s.admin, 1);
}

static void exchange__host_asks_for_a_proof_that_there_is_not__ends_the_queue(void **state)
{
    uint8_t shared[NVMF_DH_MAX], c2[48] = {1};

    (void)state;
    s.target.controllers.secrets.hosts[0].mutual = false;
    join();
    hear_challenge(s.admin, 0);
    assert_int_equal(reply(s.admin, BOUND_48, c2, shared), NVMF_OK);
    failed(s.admin, 1);
}

static void exchange__a_response_that_was_right_once__is_wrong_the_next_time(void **state)
{
    uint8_t shared[NVMF_DH_MAX], seen[NVMF_PAGE];

    (void)state;
    join();
    hear_challenge(s.admin, 0);
    assert_int_equal(reply(s.admin, BOUND_48, NULL, shared), NVMF_OK);
    memcpy(seen, s.host.memory, sizeof seen);
    assert_int_equal(receive(s.admin), NVMF_OK);
    hear_challenge(s.admin, 0);
    memcpy(s.host.memory, seen, sizeof seen);
    assert_int_equal(authentication(s.admin, NVMF_AUTH_SEND, HEAD + 96), NVMF_OK);
    failed(s.admin, 1);
}

static void exchange__messages_out_of_turn__end_the_queue(void **state)
{
    static const struct {
        uint8_t type, id, reason;
        bool challenged;
    } cases[] = {
        {1, 2, 6, false}, {1, 4, 7, true}, {0, 0, 7, true}, {1, 9, 7, true}, {0, 0xf0, 7, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        join();
        if (cases[i].challenged) {
            hear_challenge(s.admin, 0);
        }
        head(cases[i].type, cases[i].id);
        assert_int_equal(authentication(s.admin, NVMF_AUTH_SEND, HEAD), NVMF_OK);
        failed(s.admin, cases[i].reason);
        side_leave(&s);
    }
}

/* A Reply that is right but for what is done to it afterwards. */
static void put_good_reply(void)
{
    struct nvmf_secret own = secret(BOUND_48);
    struct nvmf_proof proof = {.hash = 2,
                               .secret = &own,
                               .challenge = challenge + HEAD,
                               .sequence = nvmf_get32(challenge + 12),
                               .transaction = TRANSACTION,
                               .by_host = true,
                               .from = SIDE_HOST,
                               .to = SIDE_NQN};

    head(1, 2);
    s.host.memory[6] = 48;
    assert_true(nvmf_prove(&proof, s.host.memory + HEAD));
}

static int status_after_reply(uint32_t octets)
{
    int status;

    assert_int_equal(authentication(s.admin, NVMF_AUTH_SEND, octets), NVMF_OK);
    status = property();
    side_leave(&s);
    return status;
}

static void reply__changed_or_cut__is_not_believed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HEAD + 48; i++) {
        /* Reserved octets, and a sequence number that means nothing without C2. */
        bool harmless = i == 2 || i == 3 || i == 7 || i == 9 || (i >= 12 && i < HEAD);
        join();
        hear_challenge(s.admin, 0);
        put_good_reply();
        s.host.memory[i] ^= 0x40;
        assert_int_equal(status_after_reply(HEAD + 96) == NVMF_OK, harmless);
    }
    for (uint32_t octets = 2; octets <= HEAD + 96; octets++) {
        join();
        hear_challenge(s.admin, 0);
        put_good_reply();
        assert_int_equal(status_after_reply(octets) == NVMF_OK, octets == HEAD + 96);
    }
}

static void connect__host_without_a_secret__is_refused(void **state)
{
    struct nvmf_host_queue *queue = side_queue(&s, 0, 32);

    (void)state;
    assert_int_equal(side_join_as(&s, queue, SIDE_NQN, SIDE_HOST "3", 0xffff, 0),
                     NVMF_CONNECT_HOST | DNR);
    nvmf_host_queue_close(queue);
    /* Discovery is for all. */
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, NVMF_DISCOVERY, SIDE_HOST "3", 0xffff, 0), NVMF_OK);
    assert_int_equal(negotiate(s.admin, 0), NVMF_INVALID_FIELD | DNR);
}

static void silence__after_connect__ends_the_queue(void **state)
{
    (void)state;
    join();
    nvmf_net_idle(&s.target.net, uv_hrtime() / 1000000 + 9000, 10000);
    side_run(&s, s.admin, 50);
    assert_false(s.admin->ended);
    nvmf_net_idle(&s.target.net, uv_hrtime() / 1000000 + 11000, 10000);
    side_run(&s, s.admin, 5000);
    assert_true(s.admin->ended);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secret__as_nvme_cli_prints_it__is_read),
        cmocka_unit_test(secret__with_any_octet_changed_or_cut__is_refused),
        cmocka_unit_test(prove__literal_inputs__gives_the_response_of_another_implementation),
        cmocka_unit_test(agree__each_group__gives_both_ends_the_same),
        cmocka_unit_test(file__of_secrets__says_what_is_wrong_and_keeps_what_was),
        TEST(exchange__right_secret__opens_each_queue),
        TEST(exchange__host_asks_for_a_proof__gets_one_that_is_right),
        TEST(exchange__host_does_not_believe_the_proof__is_answered_and_loses_the_queue),
        TEST(exchange__wrong_secret__ends_the_queue_with_the_reason),
        TEST(exchange__host_asks_for_a_proof_that_there_is_not__ends_the_queue),
        TEST(exchange__a_response_that_was_right_once__is_wrong_the_next_time),
        TEST(exchange__messages_out_of_turn__end_the_queue),
        TEST(reply__changed_or_cut__is_not_believed),
        TEST(connect__host_without_a_secret__is_refused),
        TEST(silence__after_connect__ends_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
