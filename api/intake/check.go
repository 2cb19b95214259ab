package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a document may be nested, whatever reads it then.
const maxDepth = 1000

// Check finds what decoders read differently, so that two that read the same
// document cannot: repeated keys, text that is not UTF-8, and something after
// the end. It decodes nothing.
func Check(document []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(document))
	for ends := 0; ; {
		_, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && ends == 1:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("it is empty")
		case err != nil:
			return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
		case dec.StackDepth() > maxDepth:
			return fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
		if dec.StackDepth() == 0 {
			if ends++; ends > 1 {
				return errors.New("there is something after the end")
			}
		}
	}
}
