package contents

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
var Rules = []Rule{
	uuidSpelling, providerUUIDInvalid, providerUUIDTwice, providerNameMissing, providerNameTwice, providerNameLong,
	generationMissing, generationNegative, rootMissing, rootWrong, parentMissing, parentCycle, textNotUTF8,
	classNotStandard, classTwice, classMissing, traitNotStandard, traitTwice, memberTwice, referenceMissing,
	aggregateNotUUID, aggregateTwice, aggregateEmpty, inventoryTwice, inventoryUnusual, ratioInvalid, amountOutOfRange,
	overCommitted, unitsBroken, allocationOfNothing, allocationTwice, withoutInventory, consumerNotUUID, consumerTwice,
	consumerMissing, ownerMissing, typeMissing, consumerEmpty, usageUnseen, nameUnused, timeMissing, timeInFuture,
	timeBackwards, withItsProvider,
	metalUUIDInvalid, metalUUIDTwice, metalNameUnusable, documentInvalid, secretMasked, nodeDriverMissing,
	nodeStateUnsettled,
	nodeReferenceMissing, nodeTraitNotStandard, instanceNotUUID, instanceTwice, nodeTakenTwice, allocationStateUnknown,
	allocationWithoutNode, allocationWaits, candidateNotUUID, withItsNode, notKept,
}

var (
	uuidSpelling = Rule{"uuid-spelling", Mended,
		"a uuid in upper case or without dashes is written in the usual form"}
	providerUUIDInvalid = Rule{"provider-uuid-invalid", Refused, "a provider's uuid is none"}
	providerUUIDTwice   = Rule{"provider-uuid-twice", Refused, "two providers have the same uuid, in different spellings"}
	providerNameMissing = Rule{"provider-name-missing", Mended, "a provider without a name gets its uuid as its name"}
	providerNameTwice   = Rule{"provider-name-twice", Mended,
		"a provider with the name of another one gets its uuid as its name"}
	providerNameLong  = Rule{"provider-name-long", Kept, "a provider's name has more than 200 characters"}
	generationMissing = Rule{"provider-generation-missing", Mended,
		"a provider without a generation gets generation 0, as Placement gives new ones"}
	generationNegative = Rule{"provider-generation-negative", Refused, "a provider's generation is below 0"}
	rootMissing        = Rule{"provider-root-missing", Mended, "a missing root follows from the parents"}
	rootWrong          = Rule{"provider-root-wrong", Mended, "a root that is not the top of the provider's parents follows from them"}
	parentMissing      = Rule{"provider-parent-missing", Refused, "a provider's parent does not exist"}
	parentCycle        = Rule{"provider-parent-cycle", Refused, "a provider is below itself"}
	textNotUTF8        = Rule{"text-not-utf8", Refused, "a text is not UTF-8"}
	classNotStandard   = Rule{"class-not-standard", Kept,
		"a resource class is neither standard nor CUSTOM_; it becomes a custom class with that name"}
	classTwice       = Rule{"class-twice", Mended, "two classes of the same name become one"}
	classMissing     = Rule{"class-missing", Refused, "an inventory or allocation is of a class that does not exist"}
	traitNotStandard = Rule{"trait-not-standard", Kept,
		"a trait is neither standard nor CUSTOM_; it becomes a custom trait with that name"}
	traitTwice       = Rule{"trait-twice", Mended, "two traits of the same name become one"}
	memberTwice      = Rule{"membership-twice", Mended, "a provider has a trait, or is in an aggregate, once"}
	referenceMissing = Rule{"reference-missing", LeftOut,
		"the row is about a provider, trait or aggregate that does not exist; Placement does not show it either"}
	aggregateNotUUID = Rule{"aggregate-not-uuid", Mended,
		"an aggregate's id that is no uuid is replaced by a uuid made from it (version 5)"}
	aggregateTwice   = Rule{"aggregate-twice", Mended, "two spellings of one aggregate's uuid become one aggregate"}
	aggregateEmpty   = Rule{"aggregate-empty", LeftOut, "an aggregate without providers is nothing that a ledger holds"}
	inventoryTwice   = Rule{"inventory-twice", Refused, "a provider has two inventories of one class"}
	inventoryUnusual = Rule{"inventory-unusual", Kept,
		"an inventory has values that the API would refuse: a total of 0, more reserved than there is, units below 1"}
	ratioInvalid     = Rule{"ratio-invalid", Refused, "an allocation ratio is negative, or not a finite number"}
	amountOutOfRange = Rule{"amount-out-of-range", Refused, "an amount is below 0, or above 2147483647"}
	overCommitted    = Rule{"over-committed", Kept, "more of an inventory is used than its capacity"}
	unitsBroken      = Rule{"units-broken", Kept,
		"an allocation does not fit min_unit, max_unit or step_size of its inventory, which changed later"}
	allocationOfNothing = Rule{"allocation-of-nothing", LeftOut, "an allocation of 0 holds nothing"}
	allocationTwice     = Rule{"allocation-twice", Mended,
		"two allocations of one class, by one consumer, of one provider become one with the sum"}
	withoutInventory = Rule{"allocation-without-inventory", Mended,
		"the provider gets an inventory with a total of 1, all of it reserved, so that the allocation has a place"}
	consumerNotUUID = Rule{"consumer-not-uuid", Mended,
		"a consumer's id that is no uuid is replaced by a uuid made from it (version 5)"}
	consumerTwice   = Rule{"consumer-twice", Mended, "two spellings of one consumer's uuid become one consumer"}
	consumerMissing = Rule{"consumer-missing", Mended,
		"a consumer without a row gets the incomplete project and user, as Placement gives it"}
	ownerMissing = Rule{"consumer-owner-missing", Mended,
		"a consumer whose project or user does not exist gets the incomplete one"}
	typeMissing   = Rule{"consumer-type-missing", Mended, "a consumer whose type does not exist gets none"}
	consumerEmpty = Rule{"consumer-without-allocations", LeftOut,
		"a consumer that holds nothing does not exist in a ledger"}
	usageUnseen = Rule{"usage-unseen", Refused,
		"more is used than the REST API shows allocations of, because their consumers have no rows: " +
			"`placement-manage db online_data_migrations` makes these rows, and an import of the database needs none"}
	nameUnused      = Rule{"name-unused", LeftOut, "a project, user or consumer type that no consumer with allocations has"}
	timeMissing     = Rule{"time-missing", Mended, "a row without a time was made when it was read"}
	timeInFuture    = Rule{"time-in-future", Mended, "a row from after it was read was made when it was read"}
	timeBackwards   = Rule{"time-backwards", Mended, "a row was changed before it was made, or made before its parent: the later time counts"}
	withItsProvider = Rule{"with-its-provider", LeftOut, "the row is about a provider that is left out"}
)

// The rules for rows of Ironic.
var (
	metalUUIDInvalid  = Rule{"metal-uuid-invalid", Refused, "the uuid of a node, node allocation or chassis is none"}
	metalUUIDTwice    = Rule{"metal-uuid-twice", Refused, "two rows have the same uuid, in different spellings"}
	metalNameUnusable = Rule{"metal-name-unusable", Mended,
		"a node or node allocation loses a name that no path can hold, or that another one has"}
	documentInvalid = Rule{"document-invalid", Refused,
		"properties, extra or another document is no JSON object, or has more than 65536 bytes"}
	secretMasked = Rule{"secret-masked", Mended,
		"values in driver_info and instance_info that look like secrets are masked: a log never forgets, and Allot contacts no hardware"}
	nodeDriverMissing  = Rule{"node-driver-missing", Kept, "a node has no driver; its next change has to name one"}
	nodeStateUnsettled = Rule{"node-state-unsettled", Mended,
		"a node that was on its way, or is in a state that Allot has no verbs for, is active if it has an instance, " +
			"enrolled if it was being verified, and else manageable"}
	nodeReferenceMissing = Rule{"node-reference-missing", Mended,
		"a node has no chassis, parent or allocation if the one that it names does not exist"}
	nodeTraitNotStandard = Rule{"node-trait-not-standard", Kept, "a node's trait is neither standard nor CUSTOM_"}
	instanceNotUUID      = Rule{"instance-not-uuid", Mended,
		"a node's instance that is no uuid is replaced by a uuid made from it (version 5)"}
	instanceTwice          = Rule{"instance-twice", Refused, "two nodes have the same instance"}
	nodeTakenTwice         = Rule{"node-taken-twice", Refused, "a node has another instance or allocation than the allocation that has it"}
	allocationStateUnknown = Rule{"allocation-state-unknown", Refused,
		"the state of a node allocation is not allocating, active or error"}
	allocationWithoutNode = Rule{"allocation-without-node", Mended,
		"an active node allocation whose node does not exist is in error"}
	allocationWaits  = Rule{"allocation-waits", Kept, "a node allocation waits for a node, and may get one when Allot starts"}
	candidateNotUUID = Rule{"candidate-not-uuid", Mended, "a candidate node that is no uuid is taken from the list"}
	withItsNode      = Rule{"with-its-node", LeftOut, "the row is about a node that is left out, or does not exist"}
	notKept          = Rule{"not-kept", LeftOut, "a ledger holds nodes, their traits, allocations and chassis, and no rows of other tables"}
)

// RuleNamed finds a rule.
func RuleNamed(name string) (Rule, bool) {
	for _, rule := range Rules {
		if rule.Name == name {
			return rule, true
		}
	}
	return Rule{}, false
}
