/*
 * url.c - URLs of stores for messages: without a password.
 */
#include <everfold/store.h>

#include <string.h>

typedef struct shown_url {
    char *out;
    size_t left; /* including the NUL */
} shown_url;

static void add_shown(shown_url *s, const char *text, size_t length)
{
    size_t fit = s->left > length ? length : s->left ? s->left - 1 : 0;

    memcpy(s->out, text, fit);
    s->out += fit;
    s->left -= fit;
}

/* The start and end of the password in "USER:PASSWORD@" before the host, or NULL. */
static const char *find_password(const char *authority, const char **out_end)
{
    size_t length = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', length);
    const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;

    *out_end = at;
    return colon ? colon + 1 : NULL;
}

void ef_url_show(const char *url, char *out, size_t size)
{
    static const char SETTING[] = "password=";
    shown_url s = {out, size};
    const char *slashes = strstr(url, "://"), *end, *from = url, *setting;
    const char *password = slashes ? find_password(slashes + 3, &end) : NULL;

    if (size == 0)
        return;
    if (password) {
        add_shown(&s, from, (size_t)(password - from));
        add_shown(&s, "***", 3);
        from = end;
    }
    while (slashes && (setting = strstr(from, SETTING)) != NULL) {
        size_t before = (size_t)(setting - from) + strlen(SETTING);
        add_shown(&s, from, before);
        add_shown(&s, "***", 3);
        from += before + strcspn(from + before, "&");
    }
    add_shown(&s, from, strlen(from));
    *s.out = '\0';
}
