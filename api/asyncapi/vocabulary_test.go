package asyncapi_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// sources are the packages whose types travel.
var sources = []string{
	"api/audit", "api/present", "api/rest", "api/wire", "commands", "commands/demand", "commands/leading",
	"commands/members", "ledger", "ledger/proof", "projector/check",
}

const module = "github.com/allot-project/allot/"

// TestVocabulary: what the documents say about types, fields and codes is what
// the source says.
func TestVocabulary(t *testing.T) {
	want := asyncapi.Vocabulary{Comments: make(map[string]string)}
	for _, source := range sources {
		for _, file := range parseFolder(t, "../../"+source) {
			ast.Inspect(file, func(n ast.Node) bool {
				if group, ok := n.(*ast.GenDecl); ok {
					describeTypes(module+source, group, want.Comments)
				}
				if spec, ok := n.(*ast.ValueSpec); ok && source == "commands/demand" {
					want.Codes = append(want.Codes, codes(t, spec)...)
				}
				return true
			})
		}
	}
	encoded, err := json.MarshalIndent(want, "", " ")
	ledgertest.OK(t, err)
	isMade(t, "vocabulary.json", append(encoded, '\n'))
}

func parseFolder(t *testing.T, folder string) []*ast.File {
	t.Helper()
	parsed, err := parser.ParseDir(token.NewFileSet(), folder, func(info fs.FileInfo) bool {
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, parser.ParseComments)
	ledgertest.OK(t, err)
	for _, pkg := range parsed {
		var files []*ast.File
		for _, name := range slices.Sorted(maps.Keys(pkg.Files)) {
			files = append(files, pkg.Files[name])
		}
		return files
	}
	t.Fatalf("no package in %s", filepath.Clean(folder))
	return nil
}

// describeTypes notes what is said of types that are JSON objects.
func describeTypes(pkg string, group *ast.GenDecl, comments map[string]string) {
	for _, spec := range group.Specs {
		one, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := one.Type.(*ast.StructType)
		if !ok || !travels(fields) {
			continue
		}
		name := pkg + "." + one.Name.Name
		note(comments, name, one.Doc, group.Doc)
		for _, field := range fields.Fields.List {
			for _, called := range field.Names {
				note(comments, name+"."+called.Name, field.Doc, field.Comment)
			}
		}
	}
}

// travels reports whether fields are members of JSON, or those of a type of another package.
func travels(fields *ast.StructType) bool {
	return slices.ContainsFunc(fields.Fields.List, func(f *ast.Field) bool {
		_, of := f.Type.(*ast.SelectorExpr)
		return f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`) || of && len(f.Names) == 0
	})
}

// note keeps the first comment that there is, on one line.
func note(comments map[string]string, name string, groups ...*ast.CommentGroup) {
	for _, group := range groups {
		if text := strings.Join(strings.Fields(group.Text()), " "); text != "" {
			comments[name] = text
			return
		}
	}
}

// codes are those of rejections that a declaration declares.
func codes(t *testing.T, spec *ast.ValueSpec) []asyncapi.CodeMeaning {
	t.Helper()
	if of, named := spec.Type.(*ast.Ident); !named || of.Name != "Code" {
		return nil
	}
	code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
	ledgertest.OK(t, err)
	return []asyncapi.CodeMeaning{{Code: demand.Code(code), Means: strings.TrimSpace(spec.Comment.Text())}}
}
