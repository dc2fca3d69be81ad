/* SPDX-License-Identifier: BSD-2-Clause */
#include "auth.h"

#include "secrets.h"

#include "programs/nvmf-wire/octets.h"
#include "programs/service/service.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/* Types and identifiers of messages, in their first two octets. */
enum { OF_ALL = 0, OF_DHCHAP = 1 };
enum {
    NEGOTIATE = 0x0000,
    CHALLENGE = 0x0101,
    REPLY = 0x0102,
    SUCCESS1 = 0x0103,
    SUCCESS2 = 0x0104,
    FAILURE2 = 0x00f0,
    FAILURE1 = 0x00f1
};

enum reason {
    NO_REASON,
    FAILED,
    NOT_OVER_RDMA = 3,
    HASH_UNUSABLE = 4,
    GROUP_UNUSABLE = 5,
    WRONG_PAYLOAD = 6,
    WRONG_MESSAGE = 7
};

#define HEAD        16u /* octets of a Challenge, a Reply, a Success before what varies */
#define FAILURE_LEN 8u
#define MESSAGE_MAX (HEAD + 2 * NVMF_DIGEST_MAX + NVMF_DH_MAX)

#define DESCRIPTOR     8u /* of Negotiate: where the one for this protocol begins */
#define DESCRIPTOR_LEN 64u
#define LIST_LEN       30u /* of hashes, and behind them of groups */
#define PROTOCOL       1u

struct nvmf_auth {
    enum step {
        EXPECT_NEGOTIATE,
        GIVE_CHALLENGE,
        EXPECT_REPLY,
        GIVE_SUCCESS,
        EXPECT_SUCCESS,
        GIVE_FAILURE,
        DISBELIEVED
    } step;
    enum reason reason; /* of GIVE_FAILURE */
    uint16_t transaction;
    uint8_t hash, group;
    bool mutual; /* the host has sent a challenge */
    uint32_t sequence, peer_sequence;
    uint8_t challenge[NVMF_DIGEST_MAX], peer_challenge[NVMF_DIGEST_MAX];
    struct evp_pkey_st *pair;
    uint8_t shared[NVMF_DH_MAX];
};

bool nvmf_auth_wanted(const struct nvmf_controller *controller)
{
    return controller->subsystem && controller->all->secrets.count > 0;
}

/* NULL: no exchange is possible on this queue. */
static const struct nvmf_host_secret *secret_of(const struct nvmf_queue *queue)
{
    const struct nvmf_controller *controller = queue->controller;

    return controller->subsystem ? nvmf_secrets_find(&controller->all->secrets, controller->host)
                                 : NULL;
}

void nvmf_auth_end(struct nvmf_queue *queue)
{
    if (queue->auth) {
        nvmf_dh_free(queue->auth->pair);
        OPENSSL_clear_free(queue->auth, sizeof *queue->auth);
        queue->auth = NULL;
    }
}

static void proved(struct nvmf_queue *queue)
{
    queue->unproved = false;
    if (queue->id == 0) {
        service_report_peer("%s: host %s has shown that it knows its secret (%s%s)", queue->peer,
                            queue->controller->host, nvmf_group_name(queue->auth->group),
                            queue->auth->mutual ? ", and so has this target" : "");
    }
}

/* --- what comes ------------------------------------------------------------------------------ */

/* Our own order of groups: a 128-bit strength that costs a millisecond or two, then what costs
 * less, then what costs more. The null group comes last. */
static const uint8_t preferred[] = {2, 1, 3, 4, 5, 0};

static enum reason choose(struct nvmf_auth *auth, const uint8_t *at, size_t octets)
{
    const uint8_t *descriptor = at + DESCRIPTOR, *hashes = descriptor + 4,
                  *group_list = hashes + LIST_LEN;
    size_t rank = sizeof preferred;

    if (octets < DESCRIPTOR + DESCRIPTOR_LEN || at[7] != 1 || descriptor[0] != PROTOCOL ||
        descriptor[2] > LIST_LEN || descriptor[3] > LIST_LEN) {
        return WRONG_PAYLOAD;
    }
    if (at[6] != 0) {
        return NOT_OVER_RDMA; /* a secure channel is asked for */
    }
    auth->hash = 0;
    for (size_t i = 0; i < descriptor[2] && auth->hash == 0; i++) {
        auth->hash = nvmf_hash_len(hashes[i]) > 0 ? hashes[i] : 0;
    }
    for (size_t i = 0; i < descriptor[3]; i++) {
        const uint8_t *found = memchr(preferred, group_list[i], sizeof preferred);
        if (found && (size_t)(found - preferred) < rank) {
            rank = (size_t)(found - preferred);
        }
    }
    if (auth->hash == 0 || rank == sizeof preferred) {
        return auth->hash == 0 ? HASH_UNUSABLE : GROUP_UNUSABLE;
    }
    auth->group = preferred[rank];
    return NO_REASON;
}

static enum reason negotiate(struct nvmf_queue *queue, const uint8_t *at, size_t octets)
{
    struct nvmf_auth *auth = queue->auth;
    enum reason reason = choose(auth, at, octets);

    if (reason) {
        return reason;
    }
    auth->transaction = nvmf_get16(at + 4);
    if (RAND_bytes(auth->challenge, (int)nvmf_hash_len(auth->hash)) != 1 ||
        RAND_bytes((uint8_t *)&auth->sequence, sizeof auth->sequence) != 1 ||
        (nvmf_group_len(auth->group) > 0 && !(auth->pair = nvmf_dh_new(auth->group)))) {
        return FAILED;
    }
    auth->sequence |= 1; /* 0 would mean something else */
    auth->step = GIVE_CHALLENGE;
    return NO_REASON;
}

static struct nvmf_proof proof_of(const struct nvmf_queue *queue, bool by_host)
{
    const struct nvmf_auth *auth = queue->auth;
    const struct nvmf_host_secret *secret = secret_of(queue);
    const char *host = queue->controller->host, *target = queue->controller->subsystem->nqn;

    return (struct nvmf_proof){.hash = auth->hash,
                               .secret = by_host ? &secret->own : &secret->target,
                               .challenge = by_host ? auth->challenge : auth->peer_challenge,
                               .shared = auth->shared,
                               .shared_len = nvmf_group_len(auth->group),
                               .sequence = by_host ? auth->sequence : auth->peer_sequence,
                               .transaction = auth->transaction,
                               .by_host = by_host,
                               .from = by_host ? host : target,
                               .to = by_host ? target : host};
}

static enum reason reply(struct nvmf_queue *queue, const uint8_t *at, size_t octets)
{
    struct nvmf_auth *auth = queue->auth;
    size_t digest = nvmf_hash_len(auth->hash), group = nvmf_group_len(auth->group);
    const struct nvmf_host_secret *secret = secret_of(queue);
    uint8_t wanted[NVMF_DIGEST_MAX];
    struct nvmf_proof proof;

    if (octets < HEAD || at[6] != digest || nvmf_get16(at + 10) != group ||
        octets < HEAD + 2 * digest + group) {
        return WRONG_PAYLOAD;
    }
    if (!secret) {
        return FAILED; /* not in the file any more */
    }
    if (group > 0 && !nvmf_dh_agree(auth->pair, at + HEAD + 2 * digest, group, auth->shared)) {
        return GROUP_UNUSABLE;
    }
    proof = proof_of(queue, true);
    if (!nvmf_prove(&proof, wanted) || CRYPTO_memcmp(wanted, at + HEAD, digest) != 0) {
        return FAILED;
    }
    auth->mutual = at[8] != 0;
    if (auth->mutual && !secret->mutual) {
        return FAILED; /* the host wants to see a secret that this target has not */
    }
    auth->peer_sequence = nvmf_get32(at + 12);
    memcpy(auth->peer_challenge, at + HEAD + digest, digest);
    auth->step = GIVE_SUCCESS;
    if (!auth->mutual) {
        proved(queue);
    }
    return NO_REASON;
}

static void refuse(struct nvmf_queue *queue, enum reason reason)
{
    queue->auth->step = GIVE_FAILURE;
    queue->auth->reason = reason;
    queue->unproved = true;
    service_report_peer("%s: queue %u: host %s has not shown that it knows its secret (reason %u)",
                        queue->peer, queue->id, queue->controller->host, reason);
}

/* A message of the host; at least two octets. */
static void hear(struct nvmf_queue *queue, const uint8_t *at, size_t octets)
{
    struct nvmf_auth *auth = queue->auth;
    unsigned message = (unsigned)at[0] << 8 | at[1];
    enum reason reason = WRONG_MESSAGE;

    if (octets < FAILURE_LEN) {
        reason = WRONG_PAYLOAD;
    } else if (message == NEGOTIATE && auth->step == EXPECT_NEGOTIATE) {
        reason = negotiate(queue, at, octets);
    } else if (nvmf_get16(at + 4) != auth->transaction) {
        reason = WRONG_PAYLOAD;
    } else if (message == REPLY && auth->step == EXPECT_REPLY) {
        reason = reply(queue, at, octets);
    } else if (message == SUCCESS2 && auth->step == EXPECT_SUCCESS) {
        proved(queue);
        nvmf_auth_end(queue);
        return;
    } else if (message == FAILURE2 && auth->step == EXPECT_SUCCESS) {
        service_report_peer(
            "%s: queue %u: host %s does not believe that this target knows its secret", queue->peer,
            queue->id, queue->controller->host);
        auth->step = DISBELIEVED;
        return;
    }
    if (reason) {
        refuse(queue, reason);
    }
}

/* --- the two commands ------------------------------------------------------------------------ */

/* Both name the protocol, and how many octets there are. */
static bool good_command(struct nvmf_request *request)
{
    const struct nvmf_command *command = &request->command;

    /* Security protocol 0xe9, its two specific octets 1 and 1. */
    if (command->dw[0] >> 8 != 0xe90101 || command->dw[1] == 0 || !secret_of(request->queue)) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return false;
    }
    if (command->sgl == NVMF_SGL_NONE || command->len < command->dw[1]) {
        nvmf_request_fail(request, NVMF_SGL_LENGTH);
        return false;
    }
    return true;
}

static void on_message(struct nvmf_request *request)
{
    struct nvmf_queue *queue = request->queue;

    if (!queue->auth) {
        queue->auth = calloc(1, sizeof *queue->auth);
    }
    if (!queue->auth) {
        nvmf_request_answer(request, NVMF_INTERNAL, 0);
        return;
    }
    hear(queue, request->data, request->command.dw[1]);
    nvmf_request_answer(request, NVMF_OK, 0);
    if (queue->auth && queue->auth->step == DISBELIEVED) {
        nvmf_queue_close(queue); /* behind the answer, without which Linux would wait for ever */
    }
}

void nvmf_auth_send(struct nvmf_request *request)
{
    if (!good_command(request)) {
        return;
    }
    if (request->command.dw[1] < 2 || request->command.dw[1] > NVMF_PAGE) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    nvmf_request_fetch(request, request->command.dw[1], request->command.dw[1], on_message);
}

static void put_head(const struct nvmf_auth *auth, uint8_t *to, unsigned message)
{
    memset(to, 0, MESSAGE_MAX);
    to[0] = (uint8_t)(message >> 8);
    to[1] = (uint8_t)message;
    nvmf_put16(to + 4, auth->transaction);
}

/* Each returns the octets of its message; 0: OpenSSL could not. */
static uint32_t put_challenge(const struct nvmf_auth *auth, uint8_t *to)
{
    uint32_t digest = (uint32_t)nvmf_hash_len(auth->hash);
    uint32_t group = (uint32_t)nvmf_group_len(auth->group);

    put_head(auth, to, CHALLENGE);
    to[6] = (uint8_t)digest;
    to[8] = auth->hash;
    to[9] = auth->group;
    nvmf_put16(to + 10, (uint16_t)group);
    nvmf_put32(to + 12, auth->sequence);
    memcpy(to + HEAD, auth->challenge, digest);
    return group == 0 || nvmf_dh_public(auth->pair, to + HEAD + digest) ? HEAD + digest + group : 0;
}

static uint32_t put_success(const struct nvmf_queue *queue, uint8_t *to)
{
    const struct nvmf_auth *auth = queue->auth;
    uint32_t digest = (uint32_t)nvmf_hash_len(auth->hash);
    struct nvmf_proof proof;

    put_head(auth, to, SUCCESS1);
    to[6] = (uint8_t)digest;
    to[8] = auth->mutual;
    if (auth->mutual) {
        proof = proof_of(queue, false);
        if (!nvmf_prove(&proof, to + HEAD)) {
            return 0;
        }
    }
    return HEAD + digest;
}

static uint32_t put_failure(const struct nvmf_auth *auth, uint8_t *to)
{
    put_head(auth, to, FAILURE1);
    to[6] = FAILED;
    to[7] = (uint8_t)auth->reason;
    return FAILURE_LEN;
}

/* There is a buffer of MESSAGE_MAX octets. */
static void tell(struct nvmf_request *request)
{
    struct nvmf_queue *queue = request->queue;
    struct nvmf_auth *auth = queue->auth;
    uint32_t octets = 0;

    if (auth && auth->step == GIVE_CHALLENGE) {
        octets = put_challenge(auth, request->data);
        auth->step = EXPECT_REPLY;
    } else if (auth && auth->step == GIVE_SUCCESS && secret_of(queue)) {
        octets = put_success(queue, request->data);
        auth->step = EXPECT_SUCCESS;
    } else if (auth && auth->step == GIVE_FAILURE) {
        octets = put_failure(auth, request->data);
    } else {
        nvmf_request_fail(request, NVMF_SEQUENCE);
        return;
    }
    if (octets == 0) {
        nvmf_request_answer(request, NVMF_INTERNAL, 0);
        nvmf_queue_close(queue);
        return;
    }
    if (octets > request->command.dw[1]) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        nvmf_queue_close(queue);
        return;
    }
    nvmf_request_give(request, octets);
    if (auth->step == GIVE_FAILURE) {
        nvmf_queue_close(queue);
    } else if (auth->step == EXPECT_SUCCESS && !auth->mutual) {
        nvmf_auth_end(queue);
    }
}

void nvmf_auth_receive(struct nvmf_request *request)
{
    if (!good_command(request)) {
        return;
    }
    if (request->command.sgl != NVMF_SGL_HOST) {
        nvmf_request_fail(request, NVMF_SGL_TYPE);
        return;
    }
    nvmf_request_take(request, MESSAGE_MAX, tell);
}
