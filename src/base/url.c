/*
 * url.c - URLs of stores as people are shown them: without a password.
 */
#include <everfold/store.h>

#include <string.h>

typedef struct shown {
    char *out;
    size_t left; /* with room for the NUL */
} shown;

static void show(shown *s, const char *text, size_t length)
{
    size_t fit = s->left > length ? length : s->left ? s->left - 1 : 0;

    memcpy(s->out, text, fit);
    s->out += fit;
    s->left -= fit;
}

/* The end of the password that begins at `at`, or NULL: "USER:PASSWORD@" in front of the host. */
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
    shown s = {out, size};
    const char *slashes = strstr(url, "://"), *end, *from = url, *setting;
    const char *password = slashes ? find_password(slashes + 3, &end) : NULL;

    if (size == 0)
        return;
    if (password) {
        show(&s, from, (size_t)(password - from));
        show(&s, "***", 3);
        from = end;
    }
    while (slashes && (setting = strstr(from, SETTING)) != NULL) {
        size_t before = (size_t)(setting - from) + strlen(SETTING);
        show(&s, from, before);
        show(&s, "***", 3);
        from += before + strcspn(from + before, "&");
    }
    show(&s, from, strlen(from));
    *s.out = '\0';
}
