/*
 * test_settings.c - settings from files, the environment and flags, and messages about mistakes.
 */
#include "test.h"

#include "../../src/base/limits.h"
#include "../../src/base/settings.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const ef__setting_spec specs[] = {
    {.key = "data", .type = EF__SETTING_TEXT, .default_text = "./everfold-data"},
    {.key = "journal", .type = EF__SETTING_TEXT, .environment = "EVERFOLD_JOURNAL_URL"},
    {.key = "outbox.enabled", .type = EF__SETTING_BOOL, .default_text = "yes"},
    {.key = "outbox.partitions", .type = EF__SETTING_INT, .default_text = "16", 1, 1024},
    {.key = "offset", .type = EF__SETTING_INT, .default_text = "-5"},
    {.key = "lease.time", .type = EF__SETTING_DURATION, .default_text = "10s", 100, 86400000},
    {.key = "cache.size", .type = EF__SETTING_BYTES, .default_text = "16m", 1024, 1LL << 40},
    {.key = "log.level",
     .type = EF__SETTING_CHOICE,
     .default_text = "info",
     .choices = "debug,info,warn,error"},
};
enum { SPEC_COUNT = sizeof(specs) / sizeof(specs[0]) };

static ef_error err;

static ef__settings *open_settings(void)
{
    ef__settings *settings = NULL;

    CHECK_STATUS(EF_OK, ef__settings_open(specs, SPEC_COUNT, &settings, &err), &err);
    return settings;
}

static ef_status load(ef__settings *settings, const char *text)
{
    return ef__settings_load_text(settings, "everfold.conf", ef_str_from(text), &err);
}

static void check_text_refused(const char *text, const char *message)
{
    ef__settings *settings = open_settings();

    CHECK_INT(EF_BAD_INPUT, load(settings, text));
    CHECK_TEXT(message, err.text);
    ef__settings_close(settings);
}

static void check_variable_refused(char *variable, const char *message)
{
    ef__settings *settings = open_settings();
    char *const environment[] = {variable, NULL};

    CHECK_INT(EF_BAD_INPUT, ef__settings_load_environment(settings, environment, &err));
    CHECK_TEXT(message, err.text);
    ef__settings_close(settings);
}

static ef__setting_view view_of(const ef__settings *settings, const char *key)
{
    for (size_t i = 0; i < ef__settings_count(settings); i++)
        if (strcmp(ef__settings_at(settings, i).spec->key, key) == 0)
            return ef__settings_at(settings, i);
    fail_msg("%s is not there", key);
    return (ef__setting_view){0};
}

TEST(defaults_hold_until_something_is_set)
{
    ef__settings *settings = open_settings();

    CHECK_STR("./everfold-data", ef__settings_text(settings, "data"));
    CHECK_STR("", ef__settings_text(settings, "journal"));
    CHECK(ef__settings_bool(settings, "outbox.enabled"));
    CHECK_INT(16, ef__settings_int(settings, "outbox.partitions"));
    CHECK_INT(-5, ef__settings_int(settings, "offset"));
    CHECK_INT(10000, ef__settings_int(settings, "lease.time"));
    CHECK_INT(16 << 20, ef__settings_int(settings, "cache.size"));
    CHECK_STR("info", ef__settings_text(settings, "log.level"));
    CHECK_INT(SPEC_COUNT, ef__settings_count(settings));
    CHECK_INT(EF__ORIGIN_DEFAULT, view_of(settings, "data").origin);
    CHECK_STR("", view_of(settings, "data").where);
    ef__settings_close(settings);
    ef__settings_close(NULL);
}

TEST(a_default_that_its_own_table_forbids_is_refused)
{
    const ef__setting_spec bad = {.key = "n", .type = EF__SETTING_INT, .default_text = "0", 1, 9};
    ef__settings *settings = (ef__settings *)&err;

    CHECK_INT(EF_BAD_INPUT, ef__settings_open(&bad, 1, &settings, &err));
    assert_null(settings);
    CHECK_TEXT("default: n is 0; 1 to 9 is allowed", err.text);
}

TEST(a_file_sets_values_in_sections_quotes_and_beside_comments)
{
    ef__settings *settings = open_settings();

    CHECK_STATUS(EF_OK,
                 load(settings, "# Everfold\r\n"
                                "\n"
                                "data = /var/lib/ever fold # where it is\r\n"
                                "journal=\"postgres://u:p#1@h/d\\\"\\\\ \" # a URL\n"
                                "offset = -9223372036854775808\n"
                                "  [ outbox ] # the queue\n"
                                "\tpartitions\t=\t32\n"
                                "enabled = off\n"
                                "[lease]\n"
                                "time = 2h"),
                 &err);
    CHECK_STR("/var/lib/ever fold", ef__settings_text(settings, "data"));
    CHECK_STR("postgres://u:p#1@h/d\"\\ ", ef__settings_text(settings, "journal"));
    CHECK(ef__settings_int(settings, "offset") == INT64_MIN);
    CHECK_INT(32, ef__settings_int(settings, "outbox.partitions"));
    CHECK(!ef__settings_bool(settings, "outbox.enabled"));
    CHECK_INT(7200000, ef__settings_int(settings, "lease.time"));
    CHECK_INT(EF__ORIGIN_FILE, view_of(settings, "lease.time").origin);
    CHECK_STR("everfold.conf:10", view_of(settings, "lease.time").where);
    CHECK_STR("2h", view_of(settings, "lease.time").value);
    ef__settings_close(settings);
}

TEST(a_number_sign_inside_a_word_belongs_to_the_value)
{
    ef__settings *settings = open_settings();

    CHECK_STATUS(EF_OK, load(settings, "data = a#b\njournal = #all comment"), &err);
    CHECK_STR("a#b", ef__settings_text(settings, "data"));
    CHECK_STR("", ef__settings_text(settings, "journal"));
    ef__settings_close(settings);
}

TEST(an_unknown_setting_is_refused_with_a_suggestion)
{
    check_text_refused("\n\n\n\n\n\n\n\n\n\n\noutbox.partition = 3",
                       "everfold.conf:12: there is no setting \"outbox.partition\"; did you mean "
                       "\"outbox.partitions\"?");
    check_text_refused("[outbox]\npratitions = 3",
                       "everfold.conf:2: there is no setting \"outbox.pratitions\"; did you mean "
                       "\"outbox.partitions\"?");
    check_text_refused("zebra = 3", "everfold.conf:1: there is no setting \"zebra\"");
}

TEST(a_key_is_set_once_in_a_file_even_when_a_flag_hides_it)
{
    ef__settings *settings = open_settings();

    CHECK_STATUS(EF_OK, ef__settings_set_flag(settings, "data", "/flag", &err), &err);
    CHECK_INT(EF_BAD_INPUT, load(settings, "data = a\n\ndata = a"));
    CHECK_TEXT("everfold.conf:3: data is set already, at everfold.conf:1", err.text);
    CHECK_STR("/flag", ef__settings_text(settings, "data"));
    ef__settings_close(settings);
}

TEST(lines_that_are_not_settings_are_refused)
{
    check_text_refused("data", "everfold.conf:1: a setting is written key = value");
    check_text_refused(" = 3", "everfold.conf:1: \"\" is not a valid name of a setting");
    check_text_refused("da ta = 3", "everfold.conf:1: \"da ta\" is not a valid name of a setting");
    check_text_refused("[outbox", "everfold.conf:1: a section is written [name]");
    check_text_refused("[", "everfold.conf:1: a section is written [name]");
    check_text_refused("[]", "everfold.conf:1: a section is written [name]");
    check_text_refused("[a] b", "everfold.conf:1: a section is written [name]");
    check_text_refused("data = \"a", "everfold.conf:1: the closing quote is missing");
    check_text_refused("data = \"", "everfold.conf:1: the closing quote is missing");
    check_text_refused("data = \"a\" b", "everfold.conf:1: there is text after the closing quote");
    check_text_refused("data = \"a\\n\"",
                       "everfold.conf:1: in quotes a backslash must precede \" or \\");
    check_text_refused("data = \"a\\",
                       "everfold.conf:1: in quotes a backslash must precede \" or \\");
}

TEST(values_with_control_characters_or_bad_utf8_are_refused_and_not_shown)
{
    static const char *const message =
        "everfold.conf:1: the value of data has a control character or is not UTF-8";
    ef__settings *settings = open_settings();

    check_text_refused("data = secret\x1b[2J", message);
    check_text_refused("data = secret\xff", message);
    check_text_refused("data = secret\u202e", message);
    CHECK_INT(EF_BAD_INPUT,
              ef__settings_load_text(settings, "everfold.conf", EF_STR("data = secret\0\n"), &err));
    CHECK_TEXT(message, err.text);
    ef__settings_close(settings);
}

TEST(the_first_mistake_ends_the_load)
{
    ef__settings *settings = open_settings();

    CHECK_INT(EF_BAD_INPUT, load(settings, "offset = 1\nnonsense\ndata = /later"));
    CHECK_INT(1, ef__settings_int(settings, "offset"));
    CHECK_STR("./everfold-data", ef__settings_text(settings, "data"));
    ef__settings_close(settings);
}

TEST(a_text_larger_than_the_limit_is_refused)
{
    ef__settings *settings = open_settings();
    char *text = malloc(EF_LIMIT_SETTINGS_BYTES + 1);

    assert_non_null(text);
    memset(text, '#', EF_LIMIT_SETTINGS_BYTES + 1);
    CHECK_STATUS(
        EF_OK, ef__settings_load_text(settings, "f", (ef_str){text, EF_LIMIT_SETTINGS_BYTES}, &err),
        &err);
    CHECK_INT(EF_TOO_LARGE, ef__settings_load_text(
                                settings, "f", (ef_str){text, EF_LIMIT_SETTINGS_BYTES + 1}, &err));
    free(text);
    ef__settings_close(settings);
}

static int64_t number_of(const char *key, const char *value)
{
    ef__settings *settings = open_settings();

    CHECK_STATUS(EF_OK, ef__settings_set_flag(settings, key, value, &err), &err);
    int64_t number = ef__settings_int(settings, key);
    ef__settings_close(settings);
    return number;
}

TEST(durations_and_sizes_have_units)
{
    CHECK_INT(250, number_of("lease.time", "250"));
    CHECK_INT(250, number_of("lease.time", "250ms"));
    CHECK_INT(9000, number_of("lease.time", "9s"));
    CHECK_INT(300000, number_of("lease.time", "5m"));
    CHECK_INT(7200000, number_of("lease.time", "2h"));
    CHECK_INT(86400000, number_of("lease.time", "1d"));
    CHECK_INT(65536, number_of("cache.size", "65536"));
    CHECK_INT(65536, number_of("cache.size", "64k"));
    CHECK_INT(65536, number_of("cache.size", "64K"));
    CHECK_INT(16 << 20, number_of("cache.size", "16m"));
    CHECK(number_of("cache.size", "3g") == INT64_C(3) << 30);
    CHECK(number_of("offset", "9223372036854775807") == INT64_MAX);
}

TEST(every_word_for_yes_and_no_is_known_and_no_other)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    ef__settings *settings = open_settings();

    for (int i = 0; i < 4; i++) {
        CHECK_INT(EF_OK, ef__settings_set_flag(settings, "outbox.enabled", no[i], &err));
        CHECK(!ef__settings_bool(settings, "outbox.enabled"));
        CHECK_INT(EF_OK, ef__settings_set_flag(settings, "outbox.enabled", yes[i], &err));
        CHECK(ef__settings_bool(settings, "outbox.enabled"));
    }
    CHECK_INT(EF_BAD_INPUT, ef__settings_set_flag(settings, "outbox.enabled", "maybe", &err));
    CHECK_TEXT("--outbox.enabled: outbox.enabled is \"maybe\"; true, false, yes, no, on, off, 1 or "
               "0 is needed",
               err.text);
    ef__settings_close(settings);
}

static void check_flag_refused(const char *key, const char *value, const char *message)
{
    ef__settings *settings = open_settings();

    CHECK_INT(EF_BAD_INPUT, ef__settings_set_flag(settings, key, value, &err));
    CHECK_TEXT(message, err.text);
    ef__settings_close(settings);
}

TEST(values_of_the_wrong_form_or_out_of_range_are_refused)
{
    static const char *const no_numbers[] = {"", "-", "x", "1.5", "0x10", "+1", "1 ", "1k", "--1"};
    static const char *const no_durations[] = {"", "s", "-5s", "1.5s", "5S", "1h30m", "5 s"};
    static const char *const no_sizes[] = {"", "k", "-5k", "1t", "5kb", "5 k"};
    ef__settings *settings = open_settings();

    for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++)
        CHECK_INT(EF_BAD_INPUT, ef__settings_set_flag(settings, "offset", no_numbers[i], &err));
    for (size_t i = 0; i < sizeof(no_durations) / sizeof(no_durations[0]); i++)
        CHECK_INT(EF_BAD_INPUT,
                  ef__settings_set_flag(settings, "lease.time", no_durations[i], &err));
    for (size_t i = 0; i < sizeof(no_sizes) / sizeof(no_sizes[0]); i++)
        CHECK_INT(EF_BAD_INPUT, ef__settings_set_flag(settings, "cache.size", no_sizes[i], &err));
    ef__settings_close(settings);

    check_flag_refused("outbox.partitions", "many",
                       "--outbox.partitions: outbox.partitions is \"many\"; a whole number is "
                       "needed");
    check_flag_refused("outbox.partitions", "1025",
                       "--outbox.partitions: outbox.partitions is 1025; 1 to 1024 is allowed");
    check_flag_refused("outbox.partitions", "99999999999999999999",
                       "--outbox.partitions: outbox.partitions is 99999999999999999999; 1 to 1024 "
                       "is allowed");
    check_flag_refused("offset", "9223372036854775808",
                       "--offset: offset is 9223372036854775808, which is too large");
    check_flag_refused("lease.time", "2d",
                       "--lease.time: lease.time is 2d; 100 ms to 86400000 ms is allowed");
    check_flag_refused("lease.time", "9223372036854775807d",
                       "--lease.time: lease.time is 9223372036854775807d; 100 ms to 86400000 ms is "
                       "allowed");
    check_flag_refused("log.level", "inf",
                       "--log.level: log.level is \"inf\"; one of debug,info,warn,error is needed");
    check_flag_refused("log.level", "debug,info",
                       "--log.level: log.level is \"debug,info\"; one of debug,info,warn,error is "
                       "needed");
    check_flag_refused("dta", "/x", "--dta: there is no setting \"dta\"; did you mean \"data\"?");
}

TEST(environment_variables_of_other_programs_are_ignored)
{
    ef__settings *settings = open_settings();
    char *const environment[] = {"HOME=/root",
                                 "EVERFOLDER=x",
                                 "everfold_data=x",
                                 "EVERFOLD_OUTBOX_PARTITIONS=8",
                                 "EVERFOLD_JOURNAL_URL=sqlite:a=b",
                                 "EVERFOLD_CONFIG=/etc/everfold.conf",
                                 "EVERFOLD_TEST_ANYTHING=1",
                                 "EVERFOLD_NO_EQUALS",
                                 NULL};

    CHECK_STATUS(EF_OK, ef__settings_load_environment(settings, environment, &err), &err);
    CHECK_INT(8, ef__settings_int(settings, "outbox.partitions"));
    CHECK_STR("sqlite:a=b", ef__settings_text(settings, "journal"));
    CHECK_STR("./everfold-data", ef__settings_text(settings, "data"));
    CHECK_INT(EF__ORIGIN_ENVIRONMENT, view_of(settings, "journal").origin);
    CHECK_STR("EVERFOLD_JOURNAL_URL", view_of(settings, "journal").where);
    CHECK_STATUS(EF_OK, ef__settings_load_environment(settings, NULL, &err), &err);
    ef__settings_close(settings);
}

TEST(an_unknown_everfold_variable_is_refused_with_a_suggestion)
{
    check_variable_refused("EVERFOLD_OUTBOX_PARTITION=8",
                           "EVERFOLD_OUTBOX_PARTITION: there is no setting of that name; did you "
                           "mean \"EVERFOLD_OUTBOX_PARTITIONS\"?");
    check_variable_refused("EVERFOLD_ZEBRA=8", "EVERFOLD_ZEBRA: there is no setting of that name");
    check_variable_refused("EVERFOLD_=8", "EVERFOLD_: there is no setting of that name");
    check_variable_refused("EVERFOLD_CONFIGS=8",
                           "EVERFOLD_CONFIGS: there is no setting of that name");
    check_variable_refused("EVERFOLD_JOURNAL=8",
                           "EVERFOLD_JOURNAL: there is no setting of that name");
    check_variable_refused("EVERFOLD_OFFSET=x", "EVERFOLD_OFFSET: offset is \"x\"; a whole number "
                                                "is needed");
}

static void set_from(ef__settings *settings, ef__setting_origin origin)
{
    char *const environment[] = {"EVERFOLD_DATA=environment", NULL};

    if (origin == EF__ORIGIN_FILE)
        CHECK_INT(EF_OK, load(settings, "data = file"));
    else if (origin == EF__ORIGIN_ENVIRONMENT)
        CHECK_INT(EF_OK, ef__settings_load_environment(settings, environment, &err));
    else
        CHECK_INT(EF_OK, ef__settings_set_flag(settings, "data", "flag", &err));
}

TEST(of_any_two_origins_the_higher_wins_in_either_order)
{
    for (int a = EF__ORIGIN_FILE; a <= EF__ORIGIN_FLAG; a++) {
        for (int b = EF__ORIGIN_FILE; b <= EF__ORIGIN_FLAG; b++) {
            if (a == b)
                continue;
            ef__setting_origin winner = (ef__setting_origin)(a > b ? a : b);
            ef__settings *settings = open_settings();
            set_from(settings, (ef__setting_origin)a);
            set_from(settings, (ef__setting_origin)b);
            CHECK_INT(winner, view_of(settings, "data").origin);
            CHECK_STR(ef__setting_origin_name(winner), ef__settings_text(settings, "data"));
            ef__settings_close(settings);
        }
    }
    CHECK_TEXT("default", ef__setting_origin_name(EF__ORIGIN_DEFAULT));
}

TEST(a_hidden_value_is_checked_all_the_same)
{
    ef__settings *settings = open_settings();

    CHECK_INT(EF_OK, ef__settings_set_flag(settings, "outbox.partitions", "4", &err));
    CHECK_INT(EF_BAD_INPUT, load(settings, "outbox.partitions = lots"));
    CHECK_INT(4, ef__settings_int(settings, "outbox.partitions"));
    ef__settings_close(settings);
}

TEST(the_last_flag_wins)
{
    ef__settings *settings = open_settings();

    CHECK_INT(EF_OK, ef__settings_set_flag(settings, "data", "one", &err));
    CHECK_INT(EF_OK, ef__settings_set_flag(settings, "data", "two", &err));
    CHECK_STR("two", ef__settings_text(settings, "data"));
    CHECK_STR("--data", view_of(settings, "data").where);
    ef__settings_close(settings);
}

TEST(a_missing_settings_file_is_reported)
{
    char path[64], expected[128];
    static const char text[] = "data = /from/disk\nnonsense = 1\n";
    ef__settings *settings = open_settings();
    int fd = memfd_create("everfold.conf", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(sizeof(text) - 1, write(fd, text, sizeof(text) - 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK_INT(EF_BAD_INPUT, ef__settings_load_file(settings, path, &err));
    CHECK_STR("/from/disk", ef__settings_text(settings, "data"));
    snprintf(expected, sizeof(expected), "%s:2: there is no setting \"nonsense\"", path);
    CHECK_TEXT(expected, err.text);
    (void)close(fd);
    CHECK_INT(EF_NOT_FOUND, ef__settings_load_file(settings, "/no/such/everfold.conf", &err));
    CHECK_TEXT("/no/such/everfold.conf: there is no such file", err.text);
    CHECK_INT(EF_IO, ef__settings_load_file(settings, ".", &err));
    ef__settings_close(settings);
}

TEST(a_file_longer_than_the_limit_is_refused)
{
    char path[64];
    ef__settings *settings = open_settings();
    int fd = memfd_create("everfold.conf", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_INT(0, ftruncate(fd, 100 * EF_LIMIT_SETTINGS_BYTES));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK_INT(EF_TOO_LARGE, ef__settings_load_file(settings, path, &err));
    (void)close(fd);
    ef__settings_close(settings);
}

static const char *suggest(const char *word)
{
    static const char *const words[] = {"append", "import", "ls", "log", "show", "requeue"};
    const char *found = ef__suggest(ef_str_from(word), words, sizeof(words) / sizeof(words[0]));

    return found ? found : "nothing";
}

TEST(a_mistyped_word_finds_the_nearest_one)
{
    CHECK_TEXT("append", suggest("apend"));    /* a letter less */
    CHECK_TEXT("append", suggest("apppend"));  /* a letter more */
    CHECK_TEXT("append", suggest("appemd"));   /* another letter */
    CHECK_TEXT("append", suggest("appedn"));   /* two swapped */
    CHECK_TEXT("ls", suggest("sl"));           /* swapped is one change, also in a short word */
    CHECK_TEXT("requeue", suggest("REQUEUE")); /* capitals do not count */
    CHECK_TEXT("show", suggest("shwo"));
    CHECK_TEXT("import", suggest("improt"));
}

TEST(a_word_that_is_far_from_all_finds_nothing)
{
    static const char *const words[] = {"append"};
    char long_word[200];

    CHECK_TEXT("nothing", suggest("zebra"));
    CHECK_TEXT("nothing", suggest("x"));
    CHECK_TEXT("nothing", suggest(""));
    CHECK_TEXT("nothing", suggest("qq"));
    memset(long_word, 'a', sizeof(long_word));
    assert_null(ef__suggest((ef_str){long_word, sizeof(long_word)}, words, 1));
    assert_null(ef__suggest(EF_STR("append"), NULL, 0));
}

TEST_MAIN(TEST_CASE(defaults_hold_until_something_is_set),
          TEST_CASE(a_default_that_its_own_table_forbids_is_refused),
          TEST_CASE(a_file_sets_values_in_sections_quotes_and_beside_comments),
          TEST_CASE(a_number_sign_inside_a_word_belongs_to_the_value),
          TEST_CASE(an_unknown_setting_is_refused_with_a_suggestion),
          TEST_CASE(a_key_is_set_once_in_a_file_even_when_a_flag_hides_it),
          TEST_CASE(lines_that_are_not_settings_are_refused),
          TEST_CASE(values_with_control_characters_or_bad_utf8_are_refused_and_not_shown),
          TEST_CASE(the_first_mistake_ends_the_load),
          TEST_CASE(a_text_larger_than_the_limit_is_refused),
          TEST_CASE(durations_and_sizes_have_units),
          TEST_CASE(every_word_for_yes_and_no_is_known_and_no_other),
          TEST_CASE(values_of_the_wrong_form_or_out_of_range_are_refused),
          TEST_CASE(environment_variables_of_other_programs_are_ignored),
          TEST_CASE(an_unknown_everfold_variable_is_refused_with_a_suggestion),
          TEST_CASE(of_any_two_origins_the_higher_wins_in_either_order),
          TEST_CASE(a_hidden_value_is_checked_all_the_same), TEST_CASE(the_last_flag_wins),
          TEST_CASE(a_missing_settings_file_is_reported),
          TEST_CASE(a_file_longer_than_the_limit_is_refused),
          TEST_CASE(a_mistyped_word_finds_the_nearest_one),
          TEST_CASE(a_word_that_is_far_from_all_finds_nothing))
