/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS with a pre-shared key: a client with a wrong key is told why it is refused; then its queue
 * pair is used again, with the right key. Both ends know who the other one is.
 */
#include "side.h"

#include <unistd.h>

/* Who may read the file of keys may be any of them: mkstemp lets only its owner. */
static void write_key(char *path, const char *line)
{
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line)) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;

    side_post_receive(s, 0, sizeof s->buffer);
    side_accept(s, NULL, 0); /* of the one that has the key: the other is no Request */
    return NULL;
}

static enum iwarp_status connect_with(struct side *s, const struct side *server, const char *path)
{
    struct iwarp_conn_options options;
    char tls[64];

    iwarp_conn_options_init(&options);
    snprintf(tls, sizeof tls, "psk=%s", path);
    options.tls = tls;
    must(iwarp_connect(s->qp, (const struct sockaddr *)&server->addr, server->addr_len, &options,
                       NULL, 0, NULL, NULL, &s->conn),
         "connect");
    return iwarp_conn_wait(s->conn, 10000);
}

/* A queue pair whose connection has failed is in ERROR; from IDLE it can be connected anew. */
static void start_anew(struct iwarp_qp *qp)
{
    struct iwarp_qp_changes changes;
    struct iwarp_qp_info info;

    info.size = sizeof info;
    must(iwarp_qp_query(qp, &info), "ask for the state");
    if (info.state != IWARP_QP_IDLE) {
        memset(&changes, 0, sizeof changes);
        changes.size = sizeof changes;
        changes.mask = IWARP_QP_CHANGE_STATE;
        changes.state = IWARP_QP_IDLE;
        must(iwarp_qp_modify(qp, &changes), "start anew");
    }
}

static void say_who(const char *end, const struct iwarp_conn *conn)
{
    struct iwarp_tls_info info;

    info.size = sizeof info;
    must(iwarp_conn_tls(conn, &info), "ask about TLS");
    printf("%s: %s, with \"%s\" at the other end\n", end, info.cipher, info.peer);
}

int main(void)
{
    char right[] = "/tmp/iwarp-key.XXXXXX", wrong[] = "/tmp/iwarp-key.XXXXXX";
    static struct side server, client;
    struct iwarp_device_options options;
    struct iwarp_wc wc;
    pthread_t thread;
    char tls[64], why[512];

    write_key(right, "store:000102030405060708090a0b0c0d0e0f\n"); /* take a random one */
    write_key(wrong, "store:ffffffffffffffffffffffffffffffff\n");
    iwarp_device_options_init(&options);
    snprintf(tls, sizeof tls, "psk=%s", right);
    options.tls = tls;
    side_open_with(&server, IWARP_ACCESS_LOCAL_WRITE, &options);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);

    side_open(&client, IWARP_ACCESS_LOCAL_WRITE);
    if (connect_with(&client, &server, wrong) == IWARP_OK) {
        fprintf(stderr, "connected with a wrong key\n");
        return 1;
    }
    iwarp_fault_text(iwarp_conn_fault(client.conn), why, sizeof why);
    printf("with a wrong key: %s\n", why);
    iwarp_conn_destroy(client.conn);

    start_anew(client.qp);
    must(connect_with(&client, &server, right), "connect with the right key");
    pthread_join(thread, NULL);
    say_who("client", client.conn);
    snprintf(client.buffer, sizeof client.buffer, "for your eyes only");
    side_send(&client, 0, strlen(client.buffer) + 1);
    if (side_wait(&server, IWARP_WC_RECV, &wc)) {
        say_who("server", server.conn);
        printf("and it has received: %s\n", server.buffer);
    }
    side_close(&client);
    side_close(&server);
    unlink(right);
    unlink(wrong);
    return 0;
}
