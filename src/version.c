#include <everfold/version.h>

const char *ef_version(void)
{
    return EF_VERSION;
}
