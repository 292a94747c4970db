/* hotpath_text.c: see hotpath.h: what a client says of its hot paths. */
#include <stdio.h>
#include <stdlib.h>

#include "client/hotpath_state.h"
#include "core/log.h"

void gt__hotpath_say_found(const gt_hotpath *hot, const gt_template *template)
{
    static const char *const kinds[GT_MAX_OPERANDS + 1] = {"create", "unary", "binary", "ternary"};
    char text[512] = "";
    size_t length = 0;
    if (!gt__log_on(GT_LOG_COMPILE))
        return;
    for (uint32_t k = 0; k < template->count && length < sizeof text - 40; k++) {
        const gt_instruction *ins = &template->records[template->at[k]].ins;
        unsigned operands = gt__op_operands((gt_opcode)ins->op);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s:%s:in%u", k ? " -> " : "",
                                   kinds[operands], gt__op_table[ins->op].name, operands);
    }
    gt__log(GT_LOG_COMPILE, "[HotPath] Detected hot sequence after %u reps: Stream(%06x:%uops)",
            hot->recording.region ? 2 : hot->detector.threshold, gt__template_entry(template) >> 8,
            template->count);
    gt__log(GT_LOG_COMPILE, "    %s%s", text, length >= sizeof text - 40 ? " -> ..." : "");
}

static void write_path(const gt_template *t, FILE *json)
{
    uint32_t dead = 0;
    for (uint32_t k = 0; k < t->count; k++)
        dead += t->dead[k];
    fprintf(json,
            "{\"name\": \"%06x\", \"number\": %d, \"instructions\": %u, \"runs\": %llu, \"misses\": %llu, "
            "\"inputs\": %u, "
            "\"parameters\": %u, \"intermediates\": %u, \"steps\": [",
            gt__template_entry(t) >> 8, (int)t->number - 1, t->count, (unsigned long long)t->hits,
            (unsigned long long)t->misses, t->inputs, t->parameter_count, dead);
    for (uint32_t k = 0; k < t->count; k++) {
        const gt_instruction *ins = &t->records[t->at[k]].ins;
        fprintf(json, "%s[\"%s\", %u]", k ? ", " : "", gt__op_table[ins->op].name, ins->site);
    }
    fputs("]}", json);
}

char *gt__hotpath_json(const gt_client *client)
{
    static const gt_hotpath off;
    const gt_hotpath *hot = client->hotpath ? client->hotpath : &off;
    const gt_hotpath_stats *s = &hot->stats;
    char *text = NULL;
    size_t size;
    const char *separator = "";
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    fprintf(json,
            "{\"enabled\": %s, \"client\": %llu, \"total_instructions\": %llu, \"hot_instructions\": %llu, "
            "\"unique_sequences\": %llu, "
            "\"hot_sequences\": %llu, \"hot_threshold\": %u, \"window_size\": %u, \"min_sequence_length\": %u, "
            "\"runs\": %llu, \"misses\": %llu, \"bytes_saved\": %llu, \"paths\": [",
            client->hotpath ? "true" : "false", (unsigned long long)client->number,
            (unsigned long long)s->instructions, (unsigned long long)s->hot_instructions,
            (unsigned long long)s->sequences, (unsigned long long)s->hot_sequences, hot->detector.threshold,
            hot->detector.window, hot->detector.shortest, (unsigned long long)s->runs,
            (unsigned long long)s->misses, (unsigned long long)s->bytes_saved);
    for (unsigned k = 0; k < GT_HOT_ENTRIES; k++)
        for (const gt_template *t = hot->entry[k]; t; t = t->next) {
            fputs(separator, json);
            write_path(t, json);
            separator = ", ";
        }
    fputs("]}", json);
    return fclose(json) == 0 ? text : (free(text), NULL);
}
