/* Help, manual page and completion script, printed from the table of options. */
#include "frontend/options.h"

#include <string.h>

typedef enum { FLAG, JOINED, EITHER, EQUALS, LONG, OPTIONAL, TOGGLE } Form;

static const struct {
  const char *name;
  Form form;
  const char *metavar, *group, *help;
} table[] = {
#define OPTION(id, name, form, metavar, commands, group, help) {name, form, metavar, group, help},
#define REFUSED(...)
#include "frontend/options.def"
#undef OPTION
#undef REFUSED
};

static const char *const usage[][2] = {
    {"relaxc [options] INPUT...", "compile Relax scripts to native code"},
    {"relaxc run INPUT [--input NAME=FILE.npy]... [--output FILE]",
     "compile in memory and call a function"},
    {"relaxc eval INPUT [--input NAME=FILE.npy]... [--output FILE]",
     "the same with the reference interpreter"},
    {"relaxc fmt INPUT [-o FILE]", "print the canonical text of a script, comments kept"},
    {"relaxc fmt -i|--check INPUT...", "rewrite scripts in place, or say which would change"},
};

static void put_spelling(Text *t, size_t i) {
  text_puts(t, table[i].name);
  switch (table[i].form) {
  case FLAG:
  case TOGGLE: break;
  case JOINED: text_puts(t, table[i].metavar); break;
  case EITHER: text_printf(t, " %s", table[i].metavar); break;
  case EQUALS:
  case LONG: text_printf(t, "=%s", table[i].metavar); break;
  case OPTIONAL: text_printf(t, "[=%s]", table[i].metavar); break;
  }
}

/* Words of s from column `at`, lines begin at column `indent`, 100 columns. */
static void put_wrapped(Text *t, const char *s, int at, int indent) {
  while (*s) {
    size_t n = strcspn(s, " ");
    if (at > indent && at + 1 + (int)n > 100) {
      text_putc(t, '\n');
      text_indent(t, indent);
      at = indent;
    } else if (at > indent) {
      text_putc(t, ' ');
      at++;
    }
    text_putn(t, s, n);
    at += (int)n;
    s += n;
    while (*s == ' ') s++;
  }
  text_putc(t, '\n');
}

void options_print_help(Text *t) {
  const char *group = "";
  text_puts(t, "usage:\n");
  for (size_t i = 0; i < sizeof usage / sizeof *usage; i++)
    text_printf(t, "  %s\n      %s\n", usage[i][0], usage[i][1]);
  for (size_t i = 0; i < OPT_COUNT; i++) {
    if (!*table[i].help) continue;
    if (strcmp(group, table[i].group) != 0) text_printf(t, "\n%s:\n", table[i].group);
    group = table[i].group;
    size_t before = t->n;
    text_puts(t, "  ");
    put_spelling(t, i);
    int width = (int)(t->n - before);
    if (width > 26) {
      text_putc(t, '\n');
      width = 0;
    }
    text_indent(t, 28 - width);
    put_wrapped(t, table[i].help, 28, 28);
  }
  text_puts(t, "\nWarnings:\n");
  for (int w = 0; w < WARN_COUNT; w++) {
    size_t before = t->n;
    text_printf(t, "  -W%s", warning_name((Warning)w));
    text_indent(t, 28 - (int)(t->n - before));
    Text help = {0};
    text_printf(&help, "%s%s", warning_help((Warning)w),
                warning_default((Warning)w) ? "" : " (off without this option)");
    put_wrapped(t, text_cstr(&help), 28, 28);
    text_free(&help);
  }
  text_puts(t,
            "\nExit code: 0 fine, 1 the input is wrong, 2 the command line is wrong. @FILE stands "
            "for the words\nof FILE.\n");
}

/* troff: a dash is \-, a backslash \e, a dot at the start of a line is no request. */
static void put_troff(Text *t, const char *s) {
  if (*s == '.' || *s == '\'') text_puts(t, "\\&");
  for (; *s; s++) {
    if (*s == '-')
      text_puts(t, "\\-");
    else if (*s == '\\')
      text_puts(t, "\\e");
    else
      text_putc(t, *s);
  }
}

void options_print_man(Text *t) {
  const char *group = "";
  text_puts(t, ".TH RELAXC 1 \"\" \"relaxc " RELAXC_VERSION "\"\n"
               ".SH NAME\nrelaxc \\- compile Relax scripts to native code\n.SH SYNOPSIS\n");
  for (size_t i = 0; i < sizeof usage / sizeof *usage; i++) {
    text_puts(t, i ? ".br\n" : "");
    put_troff(t, usage[i][0]);
    text_putc(t, '\n');
  }
  text_puts(t, ".SH DESCRIPTION\n");
  for (size_t i = 0; i < sizeof usage / sizeof *usage; i++) {
    text_puts(t, ".TP\n");
    put_troff(t, usage[i][0]);
    text_putc(t, '\n');
    put_troff(t, usage[i][1]);
    text_putc(t, '\n');
  }
  text_puts(t, ".SH OPTIONS\n");
  for (size_t i = 0; i < OPT_COUNT; i++) {
    Text spelling = {0};
    if (!*table[i].help) continue;
    if (strcmp(group, table[i].group) != 0) text_printf(t, ".SS %s\n", table[i].group);
    group = table[i].group;
    put_spelling(&spelling, i);
    text_puts(t, ".TP\n.B ");
    put_troff(t, text_cstr(&spelling));
    text_putc(t, '\n');
    put_troff(t, table[i].help);
    text_puts(t, ".\n");
    text_free(&spelling);
  }
  text_puts(t, ".SH WARNINGS\n");
  for (int w = 0; w < WARN_COUNT; w++) {
    text_puts(t, ".TP\n.B ");
    put_troff(t, "-W");
    put_troff(t, warning_name((Warning)w));
    text_putc(t, '\n');
    put_troff(t, warning_help((Warning)w));
    text_puts(t, warning_default((Warning)w) ? ".\n" : "; off without this option.\n");
  }
  text_puts(t, ".SH EXIT STATUS\n0: fine; 1: the input is wrong; 2: the command line is wrong.\n"
               ".SH ENVIRONMENT\n.TP\nRELAXRT_NUM_THREADS\nNumber of threads that compiled code "
               "uses.\n");
}

void options_print_completion(Text *t) {
  text_puts(t, "_relaxc() {\n"
               "  local cur=${COMP_WORDS[COMP_CWORD]}\n"
               "  case $cur in\n"
               "  -*) mapfile -t COMPREPLY < <(compgen -W '");
  bool first = true;
  for (size_t i = 0; i < OPT_COUNT; i++) {
    if (!*table[i].help) continue;
    if (!first) text_putc(t, ' ');
    first = false;
    text_puts(t, table[i].name);
    if (table[i].form == LONG || table[i].form == EQUALS) text_putc(t, '=');
  }
  for (int w = 0; w < WARN_COUNT; w++)
    text_printf(t, " -W%s -Wno-%s", warning_name((Warning)w), warning_name((Warning)w));
  text_puts(t,
            "' -- \"$cur\")\n"
            "      [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace ;;\n"
            "  *) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
            "     ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W 'run eval fmt' -- \"$cur\")) ;;\n"
            "  esac\n"
            "}\n"
            "complete -o filenames -F _relaxc relaxc\n");
}
