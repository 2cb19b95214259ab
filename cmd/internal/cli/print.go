package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns a text that comes from clients in one line, with everything escaped that a
// terminal obeys or does not show: control characters, line ends, marks that turn the direction
// of writing, and what has no width. Otherwise a name could forge rows, or move the cursor.
func Clean(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case hidden(r):
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteRune(r)
		}
		rest = rest[size:]
	}
	return out.String()
}

// hidden reports whether a character cannot be seen, or is obeyed by terminals.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || r == '\u2800' ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// CleanJSON returns a JSON text on one line with the same meaning, with the same characters escaped.
func CleanJSON(text []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, ErrNotAllot
	}
	if bytes.IndexFunc(compact.Bytes(), hidden) < 0 {
		return compact.Bytes(), nil
	}
	var out bytes.Buffer
	for _, r := range compact.String() { // what is hidden can stand in strings alone
		switch {
		case !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes(), nil
}

// Format is how answers are printed.
type Format int

// The formats.
const (
	Text Format = iota // aligned, with sentences and details
	CSV                // rows alone, with their details in a last column
	JSON               // answers as they come, one a line
)

// Printer prints tables, sentences and answers. Everything that it is given as a value is cleaned.
type Printer struct {
	Out    io.Writer
	Format Format

	widths []int // of the columns
	heads  []string
	begun  bool
}

// Row is a line of a table, with lines below it that say more.
type Row struct {
	Cells   []string
	Details []string
}

// Columns begins a table. A column of text has at least a width, if one is given.
func (p *Printer) Columns(heads []string, widths ...int) {
	p.heads, p.begun = heads, false
	p.widths = make([]int, len(heads))
	copy(p.widths, widths)
}

// Rows prints rows of the table, the first ones with the heads above them. Columns are as wide as
// the widest cell so far.
func (p *Printer) Rows(rows ...Row) error {
	cells := make([][]string, 0, len(rows)+1)
	told := slices.ContainsFunc(rows, func(row Row) bool { return row.Details != nil })
	if told && !p.begun && p.Format == CSV {
		p.heads = append(slices.Clone(p.heads), "text")
	}
	if !p.begun {
		cells, p.begun = append(cells, p.heads), true
	}
	first := len(cells)
	for _, row := range rows {
		clean := make([]string, len(row.Cells))
		for i, cell := range row.Cells {
			clean[i] = Clean(cell)
		}
		if p.Format == CSV && len(clean) < len(p.heads) {
			clean = append(clean, Clean(strings.Join(row.Details, "; ")))
		}
		cells = append(cells, clean)
	}
	switch p.Format {
	case JSON:
		return nil
	case CSV:
		return p.csv(cells)
	}
	numbers := make([]bool, len(p.heads)) // columns of numbers, which end in line
	for i := range numbers {
		numbers[i] = !slices.ContainsFunc(cells[first:], func(line []string) bool { return !isNumber(line[i]) })
	}
	for _, line := range cells {
		for i, cell := range line {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out bytes.Buffer
	for n, line := range cells {
		text := ""
		for i, cell := range line {
			if n < first {
				cell = strings.ToUpper(cell)
			}
			blanks := strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell))
			if numbers[i] {
				cell, blanks = blanks+cell, ""
			}
			text += cell + blanks + "  "
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
		if n >= first {
			for _, detail := range rows[n-first].Details {
				out.WriteString("         " + Clean(detail) + "\n")
			}
		}
	}
	_, err := p.Out.Write(out.Bytes())
	return err
}

func isNumber(cell string) bool {
	_, err := strconv.ParseInt(cell, 10, 64)
	return err == nil
}

// csv prints rows. A cell that a spreadsheet would take for a formula begins with an apostrophe.
func (p *Printer) csv(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if _, err := strconv.ParseFloat(cell, 64); err != nil && strings.ContainsAny(cell[:min(len(cell), 1)], "=+-@") {
				row[i] = "'" + cell
			}
		}
	}
	return csv.NewWriter(p.Out).WriteAll(rows)
}

// Say prints a sentence, unless only rows are wanted. Texts among the values are cleaned.
func (p *Printer) Say(format string, values ...any) error {
	if p.Format != Text {
		return nil
	}
	for i, value := range values {
		if text, is := value.(string); is {
			values[i] = Clean(text)
		}
	}
	_, err := fmt.Fprintf(p.Out, format+"\n", values...)
	return err
}

// Raw prints an answer as it came, if that is wanted.
func (p *Printer) Raw(answer []byte) error {
	if p.Format != JSON {
		return nil
	}
	text, err := CleanJSON(answer)
	if err == nil {
		_, err = p.Out.Write(append(text, '\n'))
	}
	return err
}
