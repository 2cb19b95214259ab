package audit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/wire"
)

// parameterMeans says what the questions' parameters mean; those of a history's
// subjects are described in describeParameter.
var parameterMeans = map[string]string{
	"actor": "who sent the command", "after": "what next of the page before said; newer than this record in histories",
	"at":         "as of a commit's sequence or an RFC 3339 time",
	"before":     "older than this: the next of the page before",
	"by":         "the keys of the rows, with commas between them: project, user, type, provider, class, hour, day, month",
	"class":      "the resource class",
	"code":       "the code of the rejection",
	"command":    "the command's name; in histories the uuid of one command",
	"command_id": "the command's uuid",
	"consumer":   "the consumer's uuid",
	"fleet":      "true: of all providers",
	"follow":     "true: go on with what comes",
	"format":     "json, the default; text: sentences; json,text: with sentences",
	"from":       "the first moment; of records the first sequence, of a proof the records that the earlier checkpoint has",
	"ids":        "uuids or ids, with commas between them",
	"kind":       "a kind of event",
	"limit":      "how many at most",
	"offset":     "how many to leave out at the beginning",
	"order":      "name, fullest or emptiest",
	"points":     "how many points at most",
	"project":    "the project's id",
	"provider":   "the provider's uuid, or its name where one provider is asked about",
	"q":          "the text that is looked for: a uuid, a name, or an id",
	"record":     "SEQUENCE.INDEX",
	"since":      "not older than this RFC 3339 time",
	"strict":     "true: an error if there never was such a project, provider or class",
	"to":         "the second moment; of consumption up to now, which is the default",
	"tree":       "true: of the whole tree of the provider; of holders: of all that is nested in it",
	"type":       "the type of consumer",
	"until":      "not newer than this RFC 3339 time",
	"whole_ids":  "true: ids without names are not shortened in sentences",
}

// Describe adds the questions to an OpenAPI document.
func Describe(d *openapi.Document) error {
	const tag = "Audit"
	d.Tag(tag, "Who held what, since when and why, and proofs of it.")
	err := d.Failure("AuditFailure", "What went wrong, in words", openapi.Text, openapi.Object{"type": "string"})
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(questions)) {
		one := questions[path]
		op := openapi.Operation{
			Method: one.method(), Path: path, ID: one.id, Summary: one.summary, Tag: tag, Answer: one.result,
			Rule: "allot:audit", Failure: "AuditFailure", Common: []string{"min_sequence", "consistency"},
		}
		switch one.result.(type) {
		case plain:
			op.Answer, op.Media = openapi.Object{"type": "string"}, openapi.Text
		case octets:
			op.Answer, op.Media = openapi.Object{"type": "string", "format": "binary"}, openapi.Bytes
		}
		switch one.answer.(type) {
		case stream:
			op.Media = openapi.Lines
		case posted:
			op.Body, op.Example = WhatIf{}, openapi.Object{
				"steps": []any{openapi.Object{
					"command": "RemoveProvider", "body": openapi.Object{"provider": "11111111-1111-4111-8111-111111111111"},
				}},
				"questions": []any{openapi.Object{"query": "Usages", "body": openapi.Object{"project": "p"}}},
			}
		}
		for _, name := range one.parameters {
			parameter, err := describeParameter(name)
			if err != nil {
				return err
			}
			op.Parameters = append(op.Parameters, parameter)
		}
		if err := d.Add(op); err != nil {
			return err
		}
	}
	return nil
}

func describeParameter(name string) (openapi.Parameter, error) {
	means := parameterMeans[name]
	if means == "" && slices.Contains(wire.Subjects, name) {
		means = "the history of this " + name
	}
	if means == "" {
		return openapi.Parameter{}, fmt.Errorf("audit: nothing says what the parameter %s means", name)
	}
	return openapi.Parameter{Name: name, In: "query", Means: means}, nil
}
