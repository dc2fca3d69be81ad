/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings as words, switches and numbers, see settings.h. A value that cannot be used becomes a
 * line in the log. So this file calls log.c, which calls settings.c, and there is no circle.
 */
#include "base/log.h"
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void iwarp_settings_complain(void)
{
    const char *complaint = iwarp_settings_complaint();

    if (complaint) {
        iwarp_log(IWARP_LOG_WARN, "settings", "%s", complaint);
    }
}

static struct iwarp_log_limit limit;

unsigned iwarp_setting_word(const char *name, const char *const *words, unsigned none)
{
    const char *value = iwarp_setting(name);
    char list[128] = "";
    size_t used = 0;

    if (!value || !value[0]) {
        return none;
    }
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0) {
            return i;
        }
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? " or " : "", words[i]);
        used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
    }
    iwarp_log_rarely(&limit, IWARP_LOG_WARN, "settings",
                     "%s is \"%s\", expected %s: taking the default", name, value, list);
    return none;
}

bool iwarp_setting_on(const char *name, bool none)
{
    static const char *const words[] = {"off", "on", NULL};

    return iwarp_setting_word(name, words, none) != 0;
}

unsigned iwarp_setting_number(const char *name, unsigned least, unsigned most, unsigned none)
{
    const char *value = iwarp_setting(name);
    char *end;

    if (!value || !value[0]) {
        return none;
    }
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && !*end && !errno && n >= least && n <= most) {
        return (unsigned)n;
    }
    iwarp_log_rarely(&limit, IWARP_LOG_WARN, "settings",
                     "%s is \"%s\", expected a number from %u to %u: taking the default", name,
                     value, least, most);
    return none;
}
