/* Grammar of the Python subset that TVMScript uses.
 *
 * One `expr` nonterminal with precedences instead of Python's ladder of fifteen: an atom then costs
 * one reduction, not fifteen. Names with dots, operators and types are no part of the grammar; the
 * semantic analysis looks them up. Recovery is by statement (`error NEWLINE`, with whatever is
 * indented below a broken header); the lexer does the skipping. Source: Python 3's language
 * reference, chapters 6 to 8.
 */
%code requires {
#include "frontend/script/parse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
}

%define api.pure full
%define api.prefix {script_yy}
%define api.location.type {TreeLoc}
%define api.token.prefix {TOK_}
%define lr.default-reduction consistent
%define parse.error custom
/* bison counts errors in a variable that nothing here reads; clang would warn */
%initial-action { (void)yynerrs; }
%locations
%param {ScriptParser *p}
%expect 0

%union {
  Tree *tree;
  TreeItems items;
  const char *name;
  int op;
}

%code {
int script_yylex(SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc, ScriptParser *p);
static void script_yyerror(const SCRIPT_YYLTYPE *loc, ScriptParser *p, const char *message);

#define YYLLOC_DEFAULT(cur, rhs, n)                                                                \
  do {                                                                                             \
    if (n) {                                                                                       \
      (cur).begin = YYRHSLOC(rhs, 1).begin;                                                        \
      (cur).end = YYRHSLOC(rhs, n).end;                                                            \
    } else {                                                                                       \
      (cur).begin = (cur).end = YYRHSLOC(rhs, 0).end;                                              \
    }                                                                                              \
  } while (0)
#define YYMAXDEPTH 60000

static Tree *make_slice(ScriptParser *p, TreeLoc loc, Tree *lower, Tree *upper, Tree *step) {
  return tree_fixed(p, TREE_SLICE, loc, 3, lower, upper, step);
}

/* A list of one without a trailing comma is its item. */
static Tree *make_tuple(ScriptParser *p, TreeLoc loc, TreeItems items, bool comma) {
  if (items.n == 1 && !comma) return items_take(p, items)[0];
  return tree_list(p, TREE_TUPLE, loc, items);
}

static Tree *make_paren(Tree *t, TreeLoc loc) {
  t->flags |= TREE_PAREN;
  if (t->kind == TREE_TUPLE) t->begin = loc.begin, t->end = loc.end;
  return t;
}

/* Adds a statement to a list; the statements of one line stand in it one by one. */
static TreeItems push_statement(ScriptParser *p, TreeItems l, Tree *t) {
  if (t->kind != TREE_BLOCK || !(t->flags & TREE_SEQ)) return items_push(p, l, t);
  for (uint32_t i = 0; i < t->n; i++) l = items_push(p, l, t->at[i]);
  return l;
}

static Tree *make_sequence(ScriptParser *p, TreeLoc loc, TreeItems items) {
  if (items.n == 1) return items_take(p, items)[0];
  Tree *t = tree_list(p, TREE_BLOCK, loc, items);
  t->flags |= TREE_SEQ;
  return t;
}

static Tree *make_block(ScriptParser *p, TreeLoc loc, Tree *only) {
  if (only->kind == TREE_BLOCK && (only->flags & TREE_SEQ)) {
    only->flags &= ~(unsigned)TREE_SEQ;
    return only;
  }
  return tree_list(p, TREE_BLOCK, loc, items_push(p, items_none(p), only));
}

static Tree *make_assign(ScriptParser *p, TreeLoc loc, TreeItems items) {
  for (uint32_t i = 0; i + 1 < items.n; i++) tree_check_target(p, p->items[items.start + i]);
  return tree_list(p, TREE_ASSIGN, loc, items);
}

/* if/elif/.../else from the back: an elif is an else block of one if. The items alternate
 * condition, block. */
static Tree *make_if(ScriptParser *p, TreeLoc loc, TreeItems items, Tree *otherwise) {
  uint32_t n = items.n;
  Tree **at = items_take(p, items);
  for (; n > 0; n -= 2) {
    TreeLoc l = n == 2 ? loc : (TreeLoc){at[n - 2]->begin, loc.end};
    Tree *t = tree_fixed(p, TREE_IF, l, 3, at[n - 2], at[n - 1], otherwise);
    if (n == 2) return t;
    otherwise = make_block(p, l, t);
  }
  return otherwise;
}
}

%token NEWLINE "end of line" INDENT "indentation" DEDENT "unindent"
%token <tree> NUMBER "number" STRING "string" CONSTANT
%token <name> NAME "name"
%token BAD_STATEMENT "statement"
%token ELLIPSIS "..." ARROW "->" AUGMENT "augmented assignment" UNSUPPORTED "keyword"
%token CLASS "class" DEF "def" WITH "with" AS "as" FOR "for" WHILE "while" ELIF "elif"
%token ASSERT "assert" RETURN "return" BREAK "break" CONTINUE "continue" PASS "pass"
%token IMPORT "import" FROM "from"
%type <op> AUGMENT

%token LAMBDA "lambda" IF "if" ELSE "else" OR "or" AND "and" NOT "not" IN "in" IS "is"
%token NOT_IN "not in" IS_NOT "is not" LE "<=" GE ">=" EQ "==" NE "!=" SHL "<<" SHR ">>"
%token FLOORDIV "//" POW "**"

%precedence BAD_LINE
%precedence INDENT /* what stands below a bad line belongs to it */
%precedence LAMBDA
%right IF ELSE
%left OR
%left AND
%precedence NOT
%left '<' '>' LE GE EQ NE IN NOT_IN IS IS_NOT
%left '|'
%left '^'
%left '&'
%left SHL SHR
%left '+' '-'
%left '*' '/' FLOORDIV '%' '@'
%precedence UNARY
%right POW

%type <tree> statement simple small compound block else_block expr primary atom bad_line
%type <tree> star_expr exprlist target subscript index argument param with_item type_param
%type <tree> lambda_param optional decorated definition string return_type number_or_name
%type <items> statements smalls assigned items targets indices arguments argument_list params
%type <items> param_list with_items decorators type_params lambda_params pairs pair ifs
%type <items> type_param_list sub_items

%start file

%%

file: %empty { p->root = tree_list(p, TREE_BLOCK, @$, items_none(p)); }
    | statements { p->root = tree_list(p, TREE_BLOCK, @$, $1); }
    ;

statements: statement { $$ = push_statement(p, items_none(p), $1); }
          | statements statement { $$ = push_statement(p, $1, $2); }
          ;

statement: simple NEWLINE { p->too_deep = false; }
         | compound { p->too_deep = false; }
         | bad_line %prec BAD_LINE
         | bad_line INDENT statements DEDENT { $$ = tree_list(p, TREE_BAD, @$, $3); }
         | INDENT {
             diag_error(p->ctx->diags, script_span(p, @1.begin, @1.end), "unexpected indentation");
           } statements DEDENT {
             $$ = tree_list(p, TREE_BLOCK, @$, $3);
             $$->flags |= TREE_SEQ;
           }
         ;

bad_line: error NEWLINE { yyerrok; $$ = tree_new(p, TREE_BAD, @$); p->too_deep = false; }
        ;

simple: smalls { $$ = make_sequence(p, @$, $1); }
      | smalls ';' { $$ = make_sequence(p, @$, $1); }
      ;

smalls: small { $$ = items_push(p, items_none(p), $1); }
      | smalls ';' small { $$ = items_push(p, $1, $3); }
      ;

small: exprlist { $$ = tree_pair(p, TREE_EXPR, @$, 0, NULL, $1); }
     | assigned { $$ = make_assign(p, @$, $1); }
     | exprlist ':' expr {
         tree_check_target(p, $1);
         $$ = tree_fixed(p, TREE_ANNOT, @$, 3, $1, $3, NULL);
       }
     | exprlist ':' expr '=' exprlist {
         tree_check_target(p, $1);
         $$ = tree_fixed(p, TREE_ANNOT, @$, 3, $1, $3, $5);
       }
     | exprlist AUGMENT exprlist { $$ = tree_pair(p, TREE_AUGMENT, @$, $2, $1, $3); }
     | RETURN { $$ = tree_new(p, TREE_RETURN, @$); }
     | RETURN exprlist { $$ = tree_pair(p, TREE_RETURN, @$, 0, NULL, $2); }
     | ASSERT expr { $$ = tree_pair(p, TREE_ASSERT, @$, 0, $2, NULL); }
     | ASSERT expr ',' expr { $$ = tree_pair(p, TREE_ASSERT, @$, 0, $2, $4); }
     | PASS { $$ = tree_new(p, TREE_PASS, @$); }
     | BREAK { $$ = tree_new(p, TREE_BREAK, @$); }
     | CONTINUE { $$ = tree_new(p, TREE_CONTINUE, @$); }
     | import { $$ = tree_new(p, TREE_IMPORT, @$); }
     | BAD_STATEMENT { $$ = tree_new(p, TREE_BAD, @$); }
     ;

assigned: exprlist '=' exprlist { $$ = items_push(p, items_push(p, items_none(p), $1), $3); }
        | assigned '=' exprlist { $$ = items_push(p, $1, $3); }
        ;

import: IMPORT modules
      | FROM source IMPORT '*'
      | FROM source IMPORT imported
      | FROM source IMPORT '(' imported ')'
      | FROM source IMPORT '(' imported ',' ')'
      ;

modules: module | modules ',' module;
module: dotted | dotted AS NAME;
dotted: NAME | dotted '.' NAME;
source: dotted | dots | dots dotted;
dots: '.' | ELLIPSIS | dots '.' | dots ELLIPSIS;
imported: imported_name | imported ',' imported_name;
imported_name: NAME | NAME AS NAME;

compound: ifs { $$ = make_if(p, @$, $1, NULL); }
        | ifs else_block { $$ = make_if(p, @$, $1, $2); }
        | WHILE expr ':' block { $$ = tree_fixed(p, TREE_WHILE, @$, 2, $2, $4, NULL); }
        | FOR targets IN exprlist ':' block {
            TreeLoc l = @2;
            $$ = tree_fixed(p, TREE_FOR, @$, 3, make_tuple(p, l, $2, false), $4, $6);
          }
        | FOR targets ',' IN exprlist ':' block {
            TreeLoc l = @2;
            $$ = tree_fixed(p, TREE_FOR, @$, 3, make_tuple(p, l, $2, true), $5, $7);
          }
        | WITH with_items ':' block { $$ = tree_list(p, TREE_WITH, @$, items_push(p, $2, $4)); }
        | decorated
        ;

ifs: IF expr ':' block { $$ = items_push(p, items_push(p, items_none(p), $2), $4); }
   | ifs ELIF expr ':' block { $$ = items_push(p, items_push(p, $1, $3), $5); }
   ;

else_block: ELSE ':' block { $$ = $3; }
          ;

targets: target { $$ = items_push(p, items_none(p), $1); }
       | targets ',' target { $$ = items_push(p, $1, $3); }
       ;

target: primary { tree_check_target(p, $1); $$ = $1; }
      ;

with_items: with_item { $$ = items_push(p, items_none(p), $1); }
          | with_items ',' with_item { $$ = items_push(p, $1, $3); }
          ;

with_item: expr { $$ = tree_pair(p, TREE_WITH_ITEM, @$, 0, $1, NULL); }
         | expr AS primary {
             tree_check_target(p, $3);
             $$ = tree_pair(p, TREE_WITH_ITEM, @$, 0, $1, $3);
           }
         ;

decorated: definition
         | decorators definition {
             $$ = $2;
             if ($$->kind != TREE_BAD) {
               $$->def->n_decorators = $1.n;
               $$->def->decorators = items_take(p, $1);
             }
           }
         ;

decorators: '@' expr NEWLINE { $$ = items_push(p, items_none(p), $2); }
          | decorators '@' expr NEWLINE { $$ = items_push(p, $1, $3); }
          ;

definition: DEF NAME type_params '(' params ')' return_type ':' block {
              TreeDef d = {.name = $2, .name_begin = @2.begin, .name_end = @2.end};
              d.head_end = @8.end;
              d.n_params = $5.n;
              d.params = items_take(p, $5);
              d.n_type_params = $3.n;
              d.type_params = items_take(p, $3);
              d.returns = $7;
              d.body = $9;
              $$ = tree_define(p, TREE_DEF, @$, &d);
            }
          | CLASS NAME ':' block {
              TreeDef d = {.name = $2, .name_begin = @2.begin, .name_end = @2.end, .body = $4};
              d.head_end = @3.end;
              $$ = tree_define(p, TREE_CLASS, @$, &d);
            }
          | CLASS NAME '(' arguments ')' ':' block {
              TreeDef d = {.name = $2, .name_begin = @2.begin, .name_end = @2.end, .body = $7};
              d.head_end = @6.end;
              d.n_params = $4.n;
              d.params = items_take(p, $4);
              $$ = tree_define(p, TREE_CLASS, @$, &d);
            }
          ;

return_type: %empty { $$ = NULL; }
           | ARROW expr { $$ = $2; }
           ;

type_params: %empty { $$ = items_none(p); }
           | '[' type_param_list ']' { $$ = $2; }
           | '[' type_param_list ',' ']' { $$ = $2; }
           ;

type_param_list: type_param { $$ = items_push(p, items_none(p), $1); }
               | type_param_list ',' type_param { $$ = items_push(p, $1, $3); }
               ;

type_param: NAME optional {
              $$ = tree_fixed(p, TREE_PARAM, @$, 2, NULL, $2, NULL);
              $$->name = $1;
            }
          | NAME ':' expr optional {
              $$ = tree_fixed(p, TREE_PARAM, @$, 2, $3, $4, NULL);
              $$->name = $1;
            }
          ;

params: %empty { $$ = items_none(p); }
      | param_list
      | param_list ','
      ;

param_list: param { $$ = items_push(p, items_none(p), $1); }
          | param_list ',' param { $$ = items_push(p, $1, $3); }
          ;

param: type_param
     | '*' { $$ = tree_fixed(p, TREE_PARAM, @$, 2, NULL, NULL, NULL); $$->op = '*'; }
     | '/' { $$ = tree_fixed(p, TREE_PARAM, @$, 2, NULL, NULL, NULL); $$->op = '/'; }
     | '*' type_param { $$ = $2; $$->op = '*'; }
     | POW type_param { $$ = $2; $$->op = '2'; }
     ;

optional: %empty { $$ = NULL; }
        | '=' expr { $$ = $2; }
        ;

block: NEWLINE INDENT statements DEDENT { $$ = tree_list(p, TREE_BLOCK, @3, $3); }
     | simple NEWLINE { $$ = make_block(p, @1, $1); }
     ;

exprlist: items { $$ = make_tuple(p, @$, $1, false); }
        | items ',' { $$ = make_tuple(p, @$, $1, true); }
        ;

items: star_expr { $$ = items_push(p, items_none(p), $1); }
     | items ',' star_expr { $$ = items_push(p, $1, $3); }
     ;

star_expr: expr
         | '*' expr { $$ = tree_pair(p, TREE_STAR, @$, 0, NULL, $2); }
         ;

expr: primary
    | expr '+' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_ADD, $1, $3); }
    | expr '-' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_SUB, $1, $3); }
    | expr '*' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_MUL, $1, $3); }
    | expr '/' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_DIV, $1, $3); }
    | expr FLOORDIV expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_FLOORDIV, $1, $3); }
    | expr '%' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_MOD, $1, $3); }
    | expr '@' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_MATMUL, $1, $3); }
    | expr POW expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_POW, $1, $3); }
    | expr '|' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_BITOR, $1, $3); }
    | expr '^' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_BITXOR, $1, $3); }
    | expr '&' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_BITAND, $1, $3); }
    | expr SHL expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_SHL, $1, $3); }
    | expr SHR expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_SHR, $1, $3); }
    | expr '<' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_LT, $1, $3); }
    | expr LE expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_LE, $1, $3); }
    | expr '>' expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_GT, $1, $3); }
    | expr GE expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_GE, $1, $3); }
    | expr EQ expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_EQ, $1, $3); }
    | expr NE expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_NE, $1, $3); }
    | expr IN expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_IN, $1, $3); }
    | expr NOT_IN expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_NOT_IN, $1, $3); }
    | expr IS expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_IS, $1, $3); }
    | expr IS_NOT expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_IS_NOT, $1, $3); }
    | expr AND expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_AND, $1, $3); }
    | expr OR expr { $$ = tree_pair(p, TREE_BINARY, @$, TREE_OR, $1, $3); }
    | '-' expr %prec UNARY { $$ = tree_pair(p, TREE_UNARY, @$, TREE_NEG, NULL, $2); }
    | '+' expr %prec UNARY { $$ = tree_pair(p, TREE_UNARY, @$, TREE_POS, NULL, $2); }
    | '~' expr %prec UNARY { $$ = tree_pair(p, TREE_UNARY, @$, TREE_INVERT, NULL, $2); }
    | NOT expr { $$ = tree_pair(p, TREE_UNARY, @$, TREE_NOT, NULL, $2); }
    | expr IF expr ELSE expr { $$ = tree_fixed(p, TREE_IFEXP, @$, 3, $3, $1, $5); }
    | LAMBDA lambda_params ':' expr %prec LAMBDA {
        $$ = tree_list(p, TREE_LAMBDA, @$, items_push(p, $2, $4));
      }
    ;

lambda_params: %empty { $$ = items_none(p); }
             | lambda_param { $$ = items_push(p, items_none(p), $1); }
             | lambda_params ',' lambda_param { $$ = items_push(p, $1, $3); }
             ;

lambda_param: NAME optional {
                $$ = tree_fixed(p, TREE_PARAM, @$, 2, NULL, $2, NULL);
                $$->name = $1;
              }
            | '*' NAME {
                $$ = tree_fixed(p, TREE_PARAM, @$, 2, NULL, NULL, NULL);
                $$->name = $2;
                $$->op = '*';
              }
            ;

primary: atom
       | primary '.' NAME { $$ = tree_named(p, TREE_ATTR, @$, $3, $1); }
       | primary '(' arguments ')' { $$ = tree_call(p, @$, $1, $3); }
       | primary '[' subscript ']' { $$ = tree_pair(p, TREE_SUBSCRIPT, @$, 0, $1, $3); }
       ;

arguments: %empty { $$ = items_none(p); }
         | argument_list
         | argument_list ','
         ;

argument_list: argument { $$ = items_push(p, items_none(p), $1); }
             | argument_list ',' argument { $$ = items_push(p, $1, $3); }
             ;

argument: star_expr
        | NAME '=' expr { $$ = tree_named(p, TREE_KEYWORD, @$, $1, $3); }
        | POW expr { $$ = tree_pair(p, TREE_DOUBLESTAR, @$, 0, NULL, $2); }
        ;

subscript: indices { $$ = make_tuple(p, @$, $1, false); }
         | indices ',' { $$ = make_tuple(p, @$, $1, true); }
         ;

indices: index { $$ = items_push(p, items_none(p), $1); }
       | indices ',' index { $$ = items_push(p, $1, $3); }
       ;

index: star_expr
     | ':' { $$ = make_slice(p, @$, NULL, NULL, NULL); }
     | expr ':' { $$ = make_slice(p, @$, $1, NULL, NULL); }
     | ':' expr { $$ = make_slice(p, @$, NULL, $2, NULL); }
     | expr ':' expr { $$ = make_slice(p, @$, $1, $3, NULL); }
     | ':' ':' { $$ = make_slice(p, @$, NULL, NULL, NULL); }
     | expr ':' ':' { $$ = make_slice(p, @$, $1, NULL, NULL); }
     | ':' expr ':' { $$ = make_slice(p, @$, NULL, $2, NULL); }
     | expr ':' expr ':' { $$ = make_slice(p, @$, $1, $3, NULL); }
     | ':' ':' expr { $$ = make_slice(p, @$, NULL, NULL, $3); }
     | expr ':' ':' expr { $$ = make_slice(p, @$, $1, NULL, $4); }
     | ':' expr ':' expr { $$ = make_slice(p, @$, NULL, $2, $4); }
     | expr ':' expr ':' expr { $$ = make_slice(p, @$, $1, $3, $5); }
     ;

atom: number_or_name
    | string
    | CONSTANT
    | ELLIPSIS { $$ = tree_new(p, TREE_CONST, @$); $$->op = TREE_ELLIPSIS; }
    | '(' ')' { $$ = make_paren(tree_list(p, TREE_TUPLE, @$, items_none(p)), @$); }
    | '(' exprlist ')' { $$ = make_paren($2, @$); }
    | '[' ']' { $$ = tree_list(p, TREE_LIST, @$, items_none(p)); }
    | '[' sub_items ']' { $$ = tree_list(p, TREE_LIST, @$, $2); }
    | '{' '}' { $$ = tree_list(p, TREE_DICT, @$, items_none(p)); }
    | '{' sub_items '}' { $$ = tree_list(p, TREE_SET, @$, $2); }
    | '{' pairs '}' { $$ = tree_list(p, TREE_DICT, @$, $2); }
    | '{' pairs ',' '}' { $$ = tree_list(p, TREE_DICT, @$, $2); }
    ;

number_or_name: NUMBER
              | NAME { $$ = tree_named(p, TREE_NAME, @$, $1, NULL); }
              ;

string: STRING
      | string STRING { $$ = tree_concat(p, @$, $1, $2); }
      ;

sub_items: items
         | items ','
         ;

pairs: pair
     | pairs ',' expr ':' expr { $$ = items_push(p, items_push(p, $1, $3), $5); }
     | pairs ',' POW expr { $$ = items_push(p, items_push(p, $1, NULL), $4); }
     ;

pair: expr ':' expr { $$ = items_push(p, items_push(p, items_none(p), $1), $3); }
    | POW expr { $$ = items_push(p, items_push(p, items_none(p), NULL), $2); }
    ;

%%

/* Only memory exhaustion (a stack above YYMAXDEPTH) comes here; syntax errors go below. */
static void script_yyerror(const SCRIPT_YYLTYPE *loc, ScriptParser *p, const char *message) {
  (void)message;
  diag_error(p->ctx->diags, script_span(p, loc->begin, loc->begin + 1),
             "the program is nested too deeply here");
}

static bool has(const yysymbol_kind_t *set, int n, yysymbol_kind_t k) {
  for (int i = 0; i < n; i++)
    if (set[i] == k) return true;
  return false;
}

/* How a token is named after "but got". */
static const char *token_text(const ScriptParser *p, yysymbol_kind_t k, TreeLoc loc,
                              char *buffer, size_t size) {
  switch (k) {
  case YYSYMBOL_YYEOF: return "the end of the file";
  case YYSYMBOL_NEWLINE: return "the end of the line";
  case YYSYMBOL_INDENT: return "an indentation";
  case YYSYMBOL_DEDENT: return "an unindentation";
  case YYSYMBOL_STRING: return "a string";
  default: break;
  }
  uint32_t n = loc.end - loc.begin;
  if (n > 40) n = 40;
  snprintf(buffer, size, "'%.*s%s'", (int)n, p->text + (loc.begin - p->base),
           n < loc.end - loc.begin ? "..." : "");
  return buffer;
}

static char closer(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : '}';
}

static void note_open(ScriptParser *p, OpenBracket b) {
  diag_note(p->ctx->diags, script_span(p, b.offset, b.offset + 1), "'%c' opened here", b.open);
}

/* One message per error, from most to least specific: an unclosed bracket, a keyword that is not
 * supported, few things expected, an expression expected, anything else. */
static int yyreport_syntax_error(const yypcontext_t *context, ScriptParser *p) {
  yysymbol_kind_t got = yypcontext_token(context);
  TreeLoc loc = *yypcontext_location(context);
  yysymbol_kind_t set[YYNTOKENS];
  int n = yypcontext_expected_tokens(context, set, YYNTOKENS);
  char buffer[64];
  const char *text = token_text(p, got, loc, buffer, sizeof buffer);
  uint32_t end = loc.end > loc.begin ? loc.end : loc.begin + 1;
  Span s = script_span(p, loc.begin, end);
  Diags *d = p->ctx->diags;
  bool bracketed = p->n_brackets > 0;
  OpenBracket open = {0, 0};
  if (bracketed) open = p->brackets[p->n_brackets - 1];
  bool operand_next = has(set, n, YYSYMBOL_NUMBER);
  const char *wanted = NULL;

  /* the bracket that this token has just opened is not the culprit */
  bool opened_now = bracketed && open.offset == loc.begin;
  if (opened_now && p->n_brackets > 1) open = p->brackets[p->n_brackets - 2];
  if (opened_now && p->n_brackets == 1) bracketed = false;

  if (bracketed && (p->fresh_line || got == YYSYMBOL_YYEOF || got == YYSYMBOL_NEWLINE)) {
    diag_error(d, s, "expected '%c' to close '%c'", closer(open.open), open.open);
    note_open(p, open);
  } else if (got == YYSYMBOL_UNSUPPORTED) {
    diag_error(d, s, "%s is not part of the language", text);
  } else if (got == YYSYMBOL_FOR && bracketed) {
    diag_error(d, s, "comprehensions are not part of the language");
  } else if (got == YYSYMBOL_ELSE || got == YYSYMBOL_ELIF) {
    diag_error(d, s, "%s without an 'if' above it", text);
  } else if (n == 1 && set[0] == YYSYMBOL_INDENT) {
    diag_error(d, s, "expected an indented block but got %s", text);
  } else if (n == 1 || n == 2) {
    wanted = yysymbol_name(set[0]);
    if (n == 2)
      diag_error(d, s, "expected %s or %s but got %s", wanted, yysymbol_name(set[1]), text);
    else if (set[0] == YYSYMBOL_NAME)
      diag_error(d, s, "expected a name but got %s", text);
    else
      diag_error(d, s, "expected %s%s%s but got %s", wanted[0] == '\'' ? "" : "'", wanted,
                 wanted[0] == '\'' ? "" : "'", text);
  } else if (operand_next) {
    diag_error(d, s, "expected an expression but got %s", text);
  } else if (bracketed) {
    diag_error(d, s, "expected ',' or '%c' but got %s", closer(open.open), text);
    if (got == YYSYMBOL_NEWLINE) note_open(p, open);
  } else if (got == YYSYMBOL_NEWLINE) {
    diag_error(d, s, "expected ':' but got %s", text);
  } else {
    diag_error(d, s, "expected the end of the statement but got %s", text);
  }

  if (got == YYSYMBOL_DEDENT) p->requeue = TOK_DEDENT;
  if (got == YYSYMBOL_INDENT) p->requeue = TOK_INDENT;
  if (got != YYSYMBOL_NEWLINE) p->recover = true;
  return 0;
}

static Tree *parse(ScriptParser *p) {
  p->brackets = xmalloc(SCRIPT_MAX_NESTING * sizeof *p->brackets);
  p->n_indent = 1; /* column 0 */
  p->line_start = true;
  script_yyparse(p);
  free(p->brackets);
  free(p->items);
  return p->root;
}

Tree *tree_parse(Context *ctx, Arena *arena, uint32_t file) {
  const SourceFile *f = sources_file(ctx->sources, file);
  ScriptParser p = {.ctx = ctx, .arena = arena, .file = file};
  p.text = p.cursor = f->text;
  p.limit = f->text + f->size;
  if (f->size >= 3 && memcmp(f->text, "\xef\xbb\xbf", 3) == 0) p.cursor += 3;
  return parse(&p);
}

const Tree *tree_parse_string(Context *ctx, Arena *arena, uint32_t file, const Tree *literal) {
  ScriptParser p = {.ctx = ctx, .arena = arena, .file = file};
  const char *s = literal->str;
  while (*s == ' ' || *s == '\t') s++; /* is no indentation here */
  p.text = p.cursor = s;
  p.limit = literal->str + literal->n;
  p.base = literal->begin + 1 + (uint32_t)(s - literal->str);
  uint32_t errors = diags_errors(ctx->diags);
  const Tree *root = parse(&p);
  if (diags_errors(ctx->diags) != errors || !root) return NULL;
  if (root->n == 1 && root->at[0]->kind == TREE_EXPR) return root->at[0]->b;
  diag_error(ctx->diags, script_span(&p, literal->begin, literal->end),
             "expected an expression in the string");
  return NULL;
}
