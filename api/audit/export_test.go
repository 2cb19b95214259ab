package audit

import (
	"reflect"
	"slices"
	"strings"
)

// Says reports whether the answer to a question has a field.
func Says(path, field string) bool {
	_, path, _ = strings.Cut(path, " ")
	fields := reflect.VisibleFields(reflect.TypeOf(questions[path].result))
	return slices.ContainsFunc(fields, func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name == field
	})
}
