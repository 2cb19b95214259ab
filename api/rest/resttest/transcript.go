// Package resttest plays transcripts: text files of requests and of what their answers must have.
//
//	# A provider's name must be free.
//	POST /resource_providers {"name":"a"}
//	-> 200
//	POST /resource_providers {"name":"a"}
//	-> 409 "code":"placement.duplicate_name"
//
// A request is [TOKEN[/ROLES]] [MICROVERSION] METHOD TARGET [BODY]. Its body may go on in the next lines, and lines
// like "Name: value" are its headers. Without a token it is the administrator's, at the newest microversion.
//
// Behind "->" stands the status with a text that the answer has, then one more text on each line. "not TEXT" is one
// that it lacks, and "Name: value" a header, whole. In texts "..." stands for anything, and {{name}} for the value
// that an answer gave the name, or, at first, for a word of the answer. {{x*100}} in a request is x a hundred times.
//
//   - "let NAME = VALUE" names a value: {{NAME}}. In quotes it is a text of Go.
//   - "world TITLE" begins a new ledger. What stands before the first world is at the beginning of each.
//   - "submit COMMAND BODY" is a command for the ledger, which gives 200 and its address, or 409 and the rejection.
//
// With -update, what an answer lacks is replaced by what it has.
package resttest

import (
	"regexp"
	"strconv"
	"strings"
)

// Exchange is a request, and what its answer must have.
type Exchange struct {
	Sender, Version, Method, Target, Body string

	headers [][]string // each in whole, its name and its value
	texts   []string   // behind the arrows
	number  int        // of the request's line
	answer  int        // of the line with the first arrow, or where it belongs
}

// transcript is a file of exchanges.
type transcript struct {
	lines  []string
	names  map[string]string // given by the file
	worlds []*section        // the first is what is at the beginning of each other
	strays []string          // lines that belong to no request
}

// section are the exchanges of a world.
type section struct {
	title     string
	exchanges []*Exchange
}

var (
	requestLine = regexp.MustCompile(
		`^(?:([^{"\s]\S*) )??(?:(\d+\.\d+|latest|none) )?(GET|HEAD|OPTIONS|POST|PUT|PATCH|DELETE|submit) (\S+)(?: (.*))?$`)
	headerLine = regexp.MustCompile(`^([A-Z][A-Za-z-]*): (.*)$`)
	repeated   = regexp.MustCompile(`\{\{(.+?)\*(\d+)\}\}`)
	named      = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// Exchanges are all exchanges of a transcript.
func Exchanges(text string) (all []*Exchange) {
	for _, world := range read(text).worlds {
		all = append(all, world.exchanges...)
	}
	return all
}

func read(text string) *transcript {
	world, last := new(section), new(Exchange)
	s := &transcript{lines: strings.Split(text, "\n"), names: make(map[string]string), worlds: []*section{world}}
	for i, line := range s.lines {
		if text, isAnswer := strings.CutPrefix(line, "-> "); isAnswer && last.number > 0 {
			last.texts = append(last.texts, text)
			continue
		}
		line = s.written(line)
		request, header := requestLine.FindStringSubmatch(line), headerLine.FindStringSubmatch(line)
		switch word, rest, _ := strings.Cut(line, " "); {
		case line == "" || line[0] == '#':
			last = new(Exchange)
		case word == "world":
			world, last = &section{title: rest}, new(Exchange)
			s.worlds = append(s.worlds, world)
		case word == "let":
			s.let(rest)
		case request != nil:
			last = &Exchange{
				Sender: request[1], Version: request[2], Method: request[3], Target: request[4], Body: request[5],
				number: i + 1, answer: i + 1,
			}
			world.exchanges = append(world.exchanges, last)
		case last.number == 0 || len(last.texts) > 0:
			s.strays = append(s.strays, line)
		case header != nil:
			last.headers, last.answer = append(last.headers, header), i+1
		default:
			last.Body, last.answer = last.Body+"\n"+line, i+1
		}
	}
	return s
}

// let reads "NAME = VALUE".
func (s *transcript) let(line string) {
	name, value, _ := strings.Cut(line, " = ")
	if text, err := strconv.Unquote(value); err == nil {
		value = text
	}
	s.names[name] = value
}

// written is a line with the values of names, and with what is repeated.
func (s *transcript) written(line string) string {
	line = fill(line, s.names)
	return repeated.ReplaceAllStringFunc(line, func(found string) string {
		parts := repeated.FindStringSubmatch(found)
		count, _ := strconv.Atoi(parts[2]) // it is a number
		return strings.Repeat(parts[1], count)
	})
}

// fill puts values in the place of names that have one.
func fill(line string, values map[string]string) string {
	return named.ReplaceAllStringFunc(line, func(found string) string {
		if value, known := values[found[2:len(found)-2]]; known {
			return value
		}
		return found
	})
}
