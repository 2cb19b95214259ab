package placement

import (
	"strconv"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

// Almost all bodies of allocations are plainly valid. plainReader reads those
// straight into the command, in one pass and without a document between. It
// judges nothing: whatever it does not take as plainly valid goes through the
// schema, which accepts more and finds the words for what is wrong. So it must
// take nothing that the schema refuses, and read nothing else from it.
type plainReader struct {
	document.Reader
	allocationReader
}

// maxPlainProviders is how many providers a consumer may have in a plain body. A
// provider that is named twice is no plain case, and each is compared with all.
const maxPlainProviders = 16

func (a allocationReader) plainAllocation(id ledger.UUID, body []byte) (commands.ConsumerAllocations, bool) {
	r := plainReader{document.Borrow(body), a}
	defer r.Return()
	want, plain := r.consumer(id, false)
	return want, plain && r.End() == nil
}

func (a allocationReader) plainAllocations(body []byte) (all []commands.ConsumerAllocations, plain bool) {
	r := plainReader{document.Borrow(body), a}
	defer r.Return()
	plain = r.members(func(key []byte) bool {
		id, isPlain := plainUUID(key)
		if !isPlain {
			return false
		}
		want, isPlain := r.consumer(id, true)
		all = append(all, want)
		return isPlain
	})
	return all, plain && len(all) > 0 && r.End() == nil
}

// consumer reads the new allocations of one consumer.
func (r *plainReader) consumer(id ledger.UUID, mayBeEmpty bool) (want commands.ConsumerAllocations, plain bool) {
	if r.version < allocationOwnerShownSince {
		return want, false
	}
	want.Consumer, want.AnyGeneration = id, r.version < consumerGenerationsSince
	needed := 3 // of the members that must be there
	if r.version >= consumerGenerationsSince {
		needed++
	}
	if r.version >= consumerTypesSince {
		needed++
	}
	plain = r.members(func(key []byte) bool {
		needed--
		switch string(key) {
		case "allocations":
			return r.allocations(&want)
		case "project_id":
			return r.name(&want.Project)
		case "user_id":
			return r.name(&want.User)
		case "consumer_generation":
			return r.version >= consumerGenerationsSince && r.generation(&want)
		case "consumer_type":
			want.Type = new(string)
			return r.version >= consumerTypesSince && r.name(want.Type) && plainClass(*want.Type)
		case "mappings":
			needed++ // it may be there
			return r.version >= mappingsSince && r.mappings()
		}
		return false
	})
	mayBeEmpty = mayBeEmpty || r.version >= consumerGenerationsSince
	return want, plain && needed == 0 && (mayBeEmpty || len(want.Resources) > 0)
}

// generation reads the generation of a consumer, or null for a new one.
func (r *plainReader) generation(want *commands.ConsumerAllocations) bool {
	value, err := r.ReadValue()
	if err != nil || string(value) == "null" {
		return err == nil
	}
	generation, plain := plainInteger(value)
	unsigned := uint64(generation)
	want.Generation = &unsigned
	return plain
}

// allocations reads what a consumer is to hold, by provider.
func (r *plainReader) allocations(want *commands.ConsumerAllocations) bool {
	var known [maxPlainProviders]ledger.UUID
	providers := known[:0]
	return r.members(func(key []byte) bool {
		provider, plain := plainUUID(key)
		if !plain || len(providers) == maxPlainProviders {
			return false
		}
		for _, other := range providers {
			if other == provider {
				return false
			}
		}
		providers = append(providers, provider)
		had := len(want.Resources)
		plain = r.members(func(key []byte) bool {
			switch string(key) {
			case "resources":
				return r.resources(provider, want)
			case "generation": // as GET shows it; it means nothing here
				value, err := r.ReadValue()
				_, plain := plainInteger(value)
				return err == nil && plain
			}
			return false
		})
		return plain && len(want.Resources) > had
	})
}

func (r *plainReader) resources(provider ledger.UUID, want *commands.ConsumerAllocations) bool {
	return r.members(func(key []byte) bool {
		class := string(key)
		value, err := r.ReadValue()
		amount, plain := plainInteger(value)
		want.Resources = append(
			want.Resources, commands.ProviderAllocation{Provider: provider, Class: class, Amount: amount},
		)
		return err == nil && plain && plainClass(class)
	})
}

// mappings reads which providers serve which groups, which means nothing here.
func (r *plainReader) mappings() bool {
	groups := 0
	plain := r.members(func(key []byte) bool {
		groups++
		if !plainSuffix(key) || r.PeekKind() != '[' || !r.next() {
			return false
		}
		providers := 0
		for ; r.PeekKind() == '"'; providers++ {
			text, plain := r.text()
			if !plain {
				return false
			}
			if _, plain = plainUUID(text); !plain {
				return false
			}
		}
		return providers > 0 && r.PeekKind() == ']' && r.next()
	})
	return plain && groups > 0
}

// members calls read for each member of an object with its name, which is not
// valid any more after that. It returns false if something is not plain.
func (r *plainReader) members(read func(name []byte) bool) bool {
	if r.PeekKind() != '{' || !r.next() {
		return false
	}
	for r.PeekKind() == '"' {
		if name, plain := r.text(); !plain || !read(name) {
			return false
		}
	}
	return r.PeekKind() == '}' && r.next()
}

func (r *plainReader) next() bool {
	_, err := r.ReadToken()
	return err == nil
}

// text reads a text of plain characters, which is valid until the next is read.
func (r *plainReader) text() ([]byte, bool) {
	value, err := r.ReadValue()
	if err != nil || len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text := value[1 : len(value)-1]
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, false
		}
	}
	return text, true
}

func (r *plainReader) name(into *string) bool {
	text, plain := r.text()
	*into = string(text)
	return plain && len(text) > 0 && len(text) <= 255
}

// plainInteger reads a positive integer that is written with digits alone.
func plainInteger(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n > 0
}

func plainClass(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && !isDigit(c) && c != '_' {
			return false
		}
	}
	return text != ""
}

func plainSuffix(text []byte) bool {
	for _, c := range text {
		if !isLetter(c) && !isDigit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return len(text) > 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// plainUUID reads a uuid with the usual dashes, which must not be nil.
func plainUUID(text []byte) (id ledger.UUID, plain bool) {
	if len(text) != 36 {
		return id, false
	}
	id, err := ledger.ParseUUID(string(text))
	return id, err == nil && !id.IsNil()
}
