/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What iwarp-nvmf serves: names, numbers, sizes, disks that cannot be opened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/nvmf-target/store.h"

#define NQN "nqn.2014-08.org.example:one"

static unsigned changes;

static void on_changed(void *arg, struct nvmf_subsystem *subsystem, uint32_t nsid)
{
    (void)arg;
    (void)subsystem;
    changes += nsid > 0;
}

static void subsystem__names__are_checked_and_found(void **state)
{
    struct nvmf_store store = {0};
    char name[300];

    (void)state;
    assert_non_null(nvmf_store_add(&store, NQN));
    assert_null(nvmf_store_add(&store, NQN));
    assert_null(nvmf_store_add(&store, "iqn.2014-08.org.example:one"));
    assert_null(nvmf_store_add(&store, NVMF_DISCOVERY));
    memset(name, 'x', sizeof name);
    memcpy(name, "nqn.", 4);
    name[NVMF_NQN_MAX + 1] = '\0';
    assert_null(nvmf_store_add(&store, name));
    name[NVMF_NQN_MAX] = '\0';
    assert_non_null(nvmf_store_add(&store, name));
    assert_non_null(nvmf_store_find(&store, name));
    assert_null(nvmf_store_find(&store, NQN "1"));
    assert_int_equal(strlen(store.subsystems->serial), 20);
    assert_string_not_equal(store.subsystems->serial, store.subsystems->next->serial);
    nvmf_store_close(&store);
}

static void hosts__named__alone_are_admitted(void **state)
{
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);

    (void)state;
    assert_true(nvmf_subsystem_admits(subsystem, "anybody"));
    assert_true(nvmf_store_hosts(&store, subsystem, (const char *[]){"a", "b"}, 2));
    assert_true(nvmf_subsystem_admits(subsystem, "a") && nvmf_subsystem_admits(subsystem, "b"));
    assert_false(nvmf_subsystem_admits(subsystem, "ab"));
    assert_true(nvmf_store_hosts(&store, subsystem, (const char *[]){"ab"}, 1));
    assert_true(nvmf_subsystem_admits(subsystem, "ab"));
    assert_false(nvmf_subsystem_admits(subsystem, "a"));
    nvmf_store_close(&store);
}

static void namespace__of_a_file__has_the_same_uuid_again_and_of_memory_another(void **state)
{
    struct nvmf_store store = {.changed = on_changed};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);
    char path[] = "/tmp/nvmf-store-XXXXXX";
    int fd = mkstemp(path);
    struct nvmf_namespace *ns;
    const char *why;
    uint8_t file[16], memory[16];

    (void)state;
    assert_int_equal(ftruncate(fd, 10000), 0);
    changes = 0;
    for (unsigned i = 0; i < 2; i++) {
        ns = nvmf_namespace_add(&store, subsystem, &(struct nvmf_wanted_disk){path, false, 0, 0},
                                &why);
        assert_non_null(ns);
        assert_int_equal(ns->nsid, 1);
        assert_int_equal(ns->blocks, 2); /* the rest is no block */
        assert_true(i == 0 || memcmp(file, ns->uuid, 16) == 0);
        memcpy(file, ns->uuid, 16);
        assert_int_equal(file[6] >> 4, 8);
        ns = nvmf_namespace_add(&store, subsystem,
                                &(struct nvmf_wanted_disk){"ram:1M", false, 512, 0}, &why);
        assert_int_equal(ns->nsid, 2);
        assert_int_equal(ns->blocks, 2048);
        assert_true(i == 0 || memcmp(memory, ns->uuid, 16) != 0);
        memcpy(memory, ns->uuid, 16);
        nvmf_namespace_remove(&store, nvmf_namespace_find(subsystem, 1));
        nvmf_namespace_remove(&store, nvmf_namespace_find(subsystem, 2));
    }
    assert_int_equal(changes, 8);
    close(fd);
    unlink(path);
    nvmf_store_close(&store);
}

/* A host that is shown one UUID twice in a subsystem takes neither disk, or one. */
static void namespaces__of_one_file__have_uuids_of_their_own(void **state)
{
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);
    char path[] = "/tmp/nvmf-store-XXXXXX";
    int fd = mkstemp(path);
    struct nvmf_namespace *ns[2];
    const char *why;
    uint8_t first[2][16];

    (void)state;
    assert_int_equal(ftruncate(fd, 10000), 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 2; i++) {
            ns[i] = nvmf_namespace_add(&store, subsystem,
                                       &(struct nvmf_wanted_disk){path, true, 0, 0}, &why);
            assert_non_null(ns[i]);
            assert_true(round == 0 || memcmp(first[i], ns[i]->uuid, 16) == 0);
            memcpy(first[i], ns[i]->uuid, 16);
        }
        assert_memory_not_equal(ns[0]->uuid, ns[1]->uuid, 16);
        nvmf_namespace_remove(&store, ns[0]);
        nvmf_namespace_remove(&store, ns[1]);
    }
    close(fd);
    unlink(path);
    nvmf_store_close(&store);
}

static void look__a_name_that_is_anothers__removes_the_namespace(void **state)
{
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);
    char path[] = "/tmp/nvmf-store-XXXXXX", other[] = "/tmp/nvmf-store-XXXXXX", away[40];
    int fd = mkstemp(path), other_fd = mkstemp(other);
    const char *why;

    (void)state;
    assert_int_equal(ftruncate(fd, 10000), 0);
    snprintf(away, sizeof away, "%s.away", path);
    assert_non_null(
        nvmf_namespace_add(&store, subsystem, &(struct nvmf_wanted_disk){path, false, 0, 0}, &why));
    assert_false(nvmf_store_look(&store));
    assert_int_equal(rename(path, away), 0);
    assert_false(nvmf_store_look(&store)); /* it is open, and nothing is in its place */
    assert_int_equal(rename(other, path), 0);
    assert_true(nvmf_store_look(&store));
    assert_null(nvmf_namespace_find(subsystem, 1));
    close(fd);
    close(other_fd);
    unlink(path);
    unlink(away);
    nvmf_store_close(&store);
}

static void namespace__that_cannot_be__has_a_reason(void **state)
{
    static const char *const names[] = {
        "/nonexistent/file",  "/tmp", "ram:", "ram:x", "ram:1X", "ram:-1", "ram:100", "/dev/null",
        "ram:99999999999999T"};
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *why = NULL;
        assert_null(nvmf_namespace_add(&store, subsystem,
                                       &(struct nvmf_wanted_disk){names[i], false, 0, 0}, &why));
        assert_non_null(why);
    }
    assert_null(nvmf_namespace_find(subsystem, 0));
    assert_null(nvmf_namespace_find(subsystem, 1));
    assert_null(nvmf_namespace_find(subsystem, NVMF_NSID_ALL));
    for (unsigned i = 0; i < NVMF_NAMESPACES; i++) {
        const char *why;
        assert_non_null(nvmf_namespace_add(
            &store, subsystem, &(struct nvmf_wanted_disk){"ram:1M", false, 0, 0}, &why));
    }
    const char *why;
    assert_null(nvmf_namespace_add(&store, subsystem,
                                   &(struct nvmf_wanted_disk){"ram:1M", false, 0, 0}, &why));
    nvmf_store_close(&store);
}

static void namespace__removed_while_busy__stays_until_it_is_not(void **state)
{
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);
    const char *why;
    struct nvmf_namespace *ns = nvmf_namespace_add(
        &store, subsystem, &(struct nvmf_wanted_disk){"ram:1M", false, 0, 0}, &why);

    (void)state;
    nvmf_namespace_begin(ns);
    nvmf_namespace_begin(ns);
    nvmf_namespace_remove(&store, ns);
    assert_null(nvmf_namespace_find(subsystem, 1));
    nvmf_namespace_end(ns);
    assert_int_equal(ns->busy, 1);
    nvmf_namespace_end(ns); /* frees it, as AddressSanitizer sees */
    nvmf_store_close(&store);
}

static void file__in_use__is_not_served_twice(void **state)
{
    struct nvmf_store store = {0};
    struct nvmf_subsystem *subsystem = nvmf_store_add(&store, NQN);
    char path[] = "/tmp/nvmf-store-XXXXXX";
    int fd = mkstemp(path);
    struct nvmf_wanted_disk disk = {path, false, 0, 0}, reader = {path, true, 0, 0};
    struct nvmf_namespace *ns;
    const char *why;

    (void)state;
    assert_int_equal(ftruncate(fd, 10000), 0);
    ns = nvmf_namespace_add(&store, subsystem, &disk, &why);
    assert_non_null(ns);
    assert_null(nvmf_namespace_add(&store, subsystem, &disk, &why));
    assert_non_null(strstr(why, "in use"));
    assert_null(nvmf_namespace_add(&store, subsystem, &reader, &why));
    nvmf_namespace_remove(&store, ns);
    assert_non_null(nvmf_namespace_add(&store, subsystem, &reader, &why));
    assert_non_null(nvmf_namespace_add(&store, subsystem, &reader, &why));
    assert_null(nvmf_namespace_add(&store, subsystem, &disk, &why));
    close(fd);
    unlink(path);
    nvmf_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subsystem__names__are_checked_and_found),
        cmocka_unit_test(hosts__named__alone_are_admitted),
        cmocka_unit_test(namespace__of_a_file__has_the_same_uuid_again_and_of_memory_another),
        cmocka_unit_test(namespaces__of_one_file__have_uuids_of_their_own),
        cmocka_unit_test(look__a_name_that_is_anothers__removes_the_namespace),
        cmocka_unit_test(namespace__that_cannot_be__has_a_reason),
        cmocka_unit_test(file__in_use__is_not_served_twice),
        cmocka_unit_test(namespace__removed_while_busy__stays_until_it_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
