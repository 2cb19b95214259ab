package contents

import "slices"

// Effect is what a rule does with a row.
type Effect string

// The effects.
const (
	Kept    Effect = "kept"     // imported as it is, though the API would not make it
	Mended  Effect = "mended"   // imported, with a change
	LeftOut Effect = "left out" // not imported
	Refused Effect = "refused"  // nothing is imported, unless the operator leaves such rows out
)

// Rule says what happens to odd rows of one kind.
type Rule struct {
	Name   string `json:"name"`
	Effect Effect `json:"effect"`
	Text   string `json:"text"`
}

// Rules are all rules.
var Rules []Rule

func rule(name string, effect Effect, text string) Rule {
	one := Rule{name, effect, text}
	Rules = append(Rules, one)
	return one
}

var (
	uuidSpelling = rule("uuid-spelling", Mended,
		"a uuid in upper case or without dashes is written in the usual form")
	providerUUIDInvalid = rule("provider-uuid-invalid", Refused, "a provider's uuid is none")
	providerUUIDTwice   = rule("provider-uuid-twice", Refused, "two providers have the same uuid, in different spellings")
	providerNameMissing = rule("provider-name-missing", Mended, "a provider without a name gets its uuid as its name")
	providerNameTwice   = rule("provider-name-twice", Mended,
		"a provider with the name of another one gets its uuid as its name")
	providerNameLong  = rule("provider-name-long", Kept, "a provider's name has more than 200 characters")
	generationMissing = rule("provider-generation-missing", Mended,
		"a provider without a generation gets generation 0, as Placement gives new ones")
	generationInvalid = rule("provider-generation-invalid", Refused, "a provider's generation is below 0, or above 2^53")
	rootMissing       = rule("provider-root-missing", Mended, "a missing root follows from the parents")
	rootWrong         = rule("provider-root-wrong", Mended, "a root that is not the top of the provider's parents follows from them")
	parentMissing     = rule("provider-parent-missing", Refused, "a provider's parent does not exist")
	parentCycle       = rule("provider-parent-cycle", Refused, "a provider is below itself")
	textNotUTF8       = rule("text-not-utf8", Refused, "a text is not UTF-8")
	classNotStandard  = rule("class-not-standard", Kept,
		"a resource class is neither standard nor CUSTOM_; it becomes a custom class with that name")
	classTwice       = rule("class-twice", Mended, "two classes of the same name become one")
	classMissing     = rule("class-missing", Refused, "an inventory or allocation is of a class that does not exist")
	traitNotStandard = rule("trait-not-standard", Kept,
		"a trait is neither standard nor CUSTOM_; it becomes a custom trait with that name")
	traitTwice       = rule("trait-twice", Mended, "two traits of the same name become one")
	memberTwice      = rule("membership-twice", Mended, "a provider has a trait, or is in an aggregate, once")
	referenceMissing = rule("reference-missing", LeftOut,
		"the row is about a provider, trait or aggregate that does not exist; Placement does not show it either")
	aggregateNotUUID = rule("aggregate-not-uuid", Mended,
		"an aggregate's id that is no uuid is replaced by a uuid made from it (version 5)")
	aggregateTwice   = rule("aggregate-twice", Mended, "two spellings of one aggregate's uuid become one aggregate")
	aggregateEmpty   = rule("aggregate-empty", LeftOut, "an aggregate without providers is nothing that a ledger holds")
	inventoryTwice   = rule("inventory-twice", Refused, "a provider has two inventories of one class")
	inventoryUnusual = rule("inventory-unusual", Kept,
		"an inventory has values that the API would refuse: a total of 0, more reserved than there is, units below 1")
	stepMissing      = rule("step-size-missing", Mended, "an inventory's step_size is 0, with which Placement fails, and becomes 1")
	ratioInvalid     = rule("ratio-invalid", Refused, "an allocation ratio is negative, or not a finite number")
	amountOutOfRange = rule("amount-out-of-range", Refused, "an amount is below 0, or above 2147483647")
	overCommitted    = rule("over-committed", Kept, "more of an inventory is used than its capacity")
	unitsBroken      = rule("units-broken", Kept,
		"an allocation does not fit min_unit, max_unit or step_size of its inventory, which changed later")
	allocationOfNothing = rule("allocation-of-nothing", LeftOut, "an allocation of 0 holds nothing")
	allocationTwice     = rule("allocation-twice", Mended,
		"two allocations of one class, by one consumer, of one provider become one with the sum")
	withoutInventory = rule("allocation-without-inventory", Mended,
		"the provider gets an inventory with a total of 1, all of it reserved, so that the allocation has a place")
	consumerNotUUID = rule("consumer-not-uuid", Mended,
		"a consumer's id that is no uuid is replaced by a uuid made from it (version 5)")
	consumerTwice   = rule("consumer-twice", Mended, "two spellings of one consumer's uuid become one consumer")
	consumerMissing = rule("consumer-missing", Mended,
		"a consumer without a row gets the incomplete project and user, as Placement gives it")
	ownerMissing = rule("consumer-owner-missing", Mended,
		"a consumer whose project or user does not exist gets the incomplete one")
	typeMissing   = rule("consumer-type-missing", Mended, "a consumer whose type does not exist gets none")
	consumerEmpty = rule("consumer-without-allocations", LeftOut,
		"a consumer that holds nothing does not exist in a ledger")
	usageUnseen = rule("usage-unseen", Refused,
		"more is used than the REST API shows allocations of, because their consumers have no rows: "+
			"`placement-manage db online_data_migrations` makes these rows, and an import of the database needs none")
	nameUnused      = rule("name-unused", LeftOut, "a project, user or consumer type that no consumer with allocations has")
	timeMissing     = rule("time-missing", Mended, "a row without a time was made when it was read")
	timeInFuture    = rule("time-in-future", Mended, "a row from after it was read was made when it was read")
	timeBackwards   = rule("time-backwards", Mended, "a row was changed before it was made, or made before its parent: the later time counts")
	withItsProvider = rule("with-its-provider", LeftOut, "the row is about a provider that is left out")
)

// The rules for rows of Ironic.
var (
	metalUUIDInvalid  = rule("metal-uuid-invalid", Refused, "the uuid of a node, node allocation or chassis is none")
	metalUUIDTwice    = rule("metal-uuid-twice", Refused, "two rows have the same uuid, in different spellings")
	metalNameUnusable = rule("metal-name-unusable", Mended,
		"a node or node allocation loses a name that no path can hold, or that another one has")
	documentInvalid = rule("document-invalid", Refused,
		"properties, extra or another document is no JSON object, or has more than 65536 bytes")
	secretMasked = rule("secret-masked", Mended,
		"values in driver_info and instance_info that look like secrets are masked: a log never forgets, and Allot contacts no hardware")
	nodeDriverMissing  = rule("node-driver-missing", Kept, "a node has no driver; its next change has to name one")
	nodeStateUnsettled = rule("node-state-unsettled", Mended,
		"a node that was on its way, or is in a state that Allot has no verbs for, is active if it has an instance, "+
			"enrolled if it was being verified, and else manageable")
	nodeReferenceMissing = rule("node-reference-missing", Mended,
		"a node has no chassis, parent or allocation if the one that it names does not exist")
	nodeTraitNotStandard = rule("node-trait-not-standard", Kept, "a node's trait is neither standard nor CUSTOM_")
	instanceNotUUID      = rule("instance-not-uuid", Mended,
		"a node's instance that is no uuid is replaced by a uuid made from it (version 5)")
	instanceTwice          = rule("instance-twice", Refused, "two nodes have the same instance")
	nodeTakenTwice         = rule("node-taken-twice", Refused, "a node has another instance or allocation than the allocation that has it")
	allocationStateUnknown = rule("allocation-state-unknown", Refused,
		"the state of a node allocation is not allocating, active or error")
	allocationWithoutNode = rule("allocation-without-node", Mended,
		"an active node allocation whose node does not exist is in error")
	allocationWaits  = rule("allocation-waits", Kept, "a node allocation waits for a node, and may get one when Allot starts")
	candidateNotUUID = rule("candidate-not-uuid", Mended, "a candidate node that is no uuid is taken from the list")
	withItsNode      = rule("with-its-node", LeftOut, "the row is about a node that is left out, or does not exist")
	notKept          = rule("not-kept", LeftOut, "a ledger holds nodes, their traits, allocations and chassis, and no rows of other tables")
)

// RuleNamed finds a rule.
func RuleNamed(name string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(one Rule) bool { return one.Name == name })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}
