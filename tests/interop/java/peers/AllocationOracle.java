// SPDX-License-Identifier: Apache-2.0
package peers;

import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What Apache's own allocation strategies give. --cases names a file with one case per line, five fields with tabs between: strategy,
 * its argument, client id, client ids, queues as broker:topic:id (lists with commas). One "answers" line: per case the places of the
 * queues that the client gets in the list as it was given, with commas, or ! when the strategy refused; a semicolon ends each case.
 */
public final class AllocationOracle {
    private AllocationOracle() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Paths.get(new Arguments(args).need("cases")))) {
            answers.append(answer(line.split("\t", -1))).append(';');
        }
        new Line("answers").with("places", answers).print();
        Line.end(0);
    }

    private static String answer(String[] fields) {
        List<MessageQueue> given = new ArrayList<>();
        for (String queue : fields[4].split(",")) {
            String[] parts = queue.split(":");
            given.add(new MessageQueue(parts[1], parts[0], Integer.parseInt(parts[2])));
        }
        // As RebalanceImpl does before it asks the strategy.
        List<MessageQueue> queues = new ArrayList<>(given);
        List<String> clientIds = new ArrayList<>(Arrays.asList(fields[3].split(",")));
        Collections.sort(queues);
        Collections.sort(clientIds);
        try {
            List<String> places = new ArrayList<>();
            for (MessageQueue queue : strategy(fields[0], fields[1], given).allocate("group", fields[2], queues, clientIds)) {
                places.add(Integer.toString(given.indexOf(queue)));
            }
            return String.join(",", places);
        } catch (RuntimeException refused) {
            return "!";
        }
    }

    private static AllocateMessageQueueStrategy strategy(String name, String argument, List<MessageQueue> given) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(argument));
            case "CONFIG": {
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                List<MessageQueue> chosen = new ArrayList<>();
                for (String place : argument.split(",")) {
                    chosen.add(given.get(Integer.parseInt(place)));
                }
                config.setMessageQueueList(chosen);
                return config;
            }
            case "MACHINE_ROOM": {
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(new HashSet<>(Arrays.asList(argument.split(","))));
                return rooms;
            }
            case "MACHINE_ROOM_NEARBY":
                return new AllocateMachineRoomNearby(strategy(argument, "10", given), new AllocateMachineRoomNearby.MachineRoomResolver() {
                    @Override
                    public String brokerDeployIn(MessageQueue queue) {
                        return queue.getBrokerName().split("@", 2)[0];
                    }

                    @Override
                    public String consumerDeployIn(String clientId) {
                        return clientId.split("-", 2)[0];
                    }
                });
            default:
                throw new IllegalStateException("no strategy is called " + name);
        }
    }
}
