/*
 * openapi.h - shared declarations of the files that write /openapi.json.
 */
#ifndef EF_SERVER_OPENAPI_H
#define EF_SERVER_OPENAPI_H

#include "../base/json.h"
#include "../shape/operation.h"

/* Members of "components": parameters, headers and responses that operations refer to. */
void ef__openapi_parts(ef__json_writer *w);
/* Items of an operation's "parameters": the headers that it reads. */
void ef__openapi_header_parameters(ef__json_writer *w, const ef__operation *route);
/* The member "headers" of its answer, where it is a page of events. */
void ef__openapi_page_headers(ef__json_writer *w, const ef__operation *route);
/* Members of its "responses": the errors, and the default. */
void ef__openapi_errors(ef__json_writer *w, const ef__operation *route);
/* The schema of a problem's code. */
void ef__openapi_codes(ef__json_writer *w);

#endif
